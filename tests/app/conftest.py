"""Small recordings on disk, and the command as it is installed: `rooftree(*words)`."""

import contextlib
import dataclasses
import io
import itertools
import json
import math

import numpy as np
import pytest

from app.cli.main import main
from traces.kinds.acceptance import AcceptanceTrace, Provenance
from traces.kinds.summary import Summary
from traces.storage.acceptance_file import write_acceptance


@pytest.fixture(autouse=True)
def _no_lines_of_slow_machines(monkeypatch):
    """Lines of work of half a minute depend on the machine; tests read what is said."""
    monkeypatch.setattr("app.answers.progress.SILENT_S", math.inf)


LENGTHS = (60, 48, 72, 55, 64, 40, 66, 51)
KINDS = ("chat", "code") * 4
MODEL = "llama-3.2-1b"


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def answer(self):
        """The one JSON object that `--json` promises."""
        assert self.code == 0, self.err
        return json.loads(self.out)


def run(*words):
    """The command in this process: what it returns, and what it writes to both streams."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])
    return Ended(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def rooftree():
    return run


def _offsets():
    return np.concatenate([[0], np.cumsum(LENGTHS)])


def _runs(rank, offsets, longest):
    """Tokens that a step emits where it goes on while the rank is 0, up to `longest` draft
    tokens."""
    emitted = np.ones(rank.size, dtype=np.int16)
    for low, high in itertools.pairwise(offsets):
        for at in range(high - 1, low - 1, -1):
            hits = 0
            while hits < longest and at + hits < high and rank[at + hits] == 0:
                hits += 1
            emitted[at] = hits + 1
    return emitted


def rank_trace(**about):
    """Level 2, any depth: two kinds of prompt, code easier to guess than chat."""
    generator = np.random.default_rng(7)
    likely = ([0.55, 0.2, 0.1, 0.05, 0.1], [0.75, 0.1, 0.05, 0.02, 0.08])
    rank = np.concatenate(
        [generator.choice([0, 1, 2, 3, -1], p=likely[r % 2], size=n) for r, n in enumerate(LENGTHS)]
    ).astype(np.int8)
    provenance = Provenance(
        model=MODEL, drafter="exit at 5", method="early-exit", device="cpu", dataset="made up"
    )
    return AcceptanceTrace(
        provenance=dataclasses.replace(provenance, **about),
        request_ids=tuple(f"r{i}" for i in range(len(LENGTHS))),
        prompt_kinds=KINDS,
        prompt_tokens=np.arange(100, 180, 10),
        offsets=_offsets(),
        emitted=_runs(rank, _offsets(), 16),
        rank=rank,
        rank_width=8,
        depth_invariant=True,
    )


def lookup_trace(*, drafted=True, **about):
    """Level 1: a lookup drafter that proposes at half of the positions."""
    generator = np.random.default_rng(11)
    proposed = np.where(
        generator.random(sum(LENGTHS)) < 0.5, generator.integers(1, 9, sum(LENGTHS)), 0
    )
    emitted = 1 + np.minimum(proposed, generator.geometric(0.35, sum(LENGTHS)) - 1)
    provenance = Provenance(
        model=MODEL, drafter="prompt lookup", method="n-gram", device="cpu", dataset="made up"
    )
    return AcceptanceTrace(
        provenance=dataclasses.replace(provenance, **about),
        request_ids=tuple(f"r{i}" for i in range(len(LENGTHS))),
        prompt_kinds=KINDS,
        prompt_tokens=np.arange(100, 180, 10),
        offsets=_offsets(),
        first_step_position=1,
        emitted=emitted,
        drafted=proposed if drafted else None,
    )


@dataclasses.dataclass(frozen=True)
class Files:
    """Paths of the recordings."""

    ranks: object
    lookup: object
    undrafted: object
    unnamed: object
    summary: object
    vector: object


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recordings")
    made = {
        "ranks": rank_trace(),
        "lookup": lookup_trace(),
        "undrafted": lookup_trace(drafted=False),
        "unnamed": lookup_trace(method=""),
        "summary": AcceptanceTrace(
            provenance=Provenance(model=MODEL, method="n-gram"),
            summary=Summary(
                acceptance_by_depth=(0.6, 0.3), drafts=100, draft_tokens=200, accepted_tokens=90
            ),
        ),
    }
    paths = {name: folder / f"{name}.parquet" for name in made}
    for name, trace in made.items():
        write_acceptance(trace, paths[name])
    vector = folder / "vector.json"
    vector.write_text(json.dumps([0.6, 0.2, 0.05]))
    return Files(vector=vector, **paths)


BATCHES, CONTEXTS = (1, 4, 64), (256, 1024)
QUESTION = (
    "--batch",
    "1,4,64",
    "--context",
    "256,1024",
    "--draft-tokens",
    "1,3,5",
    "--tree-nodes",
    "4,8",
)


@pytest.fixture(scope="session")
def optimized(rooftree, files, tmp_path_factory):
    """An answer of `optimize` over both recordings, and the folder that it wrote."""
    folder = tmp_path_factory.mktemp("optimized")
    words = (
        "optimize",
        "--trace",
        files.ranks,
        "--trace",
        files.lookup,
        *QUESTION,
        "--engines",
        "all",
        "--out",
        folder,
        "--json",
    )
    return rooftree(*words).answer, folder
