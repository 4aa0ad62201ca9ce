"""What would every drafter have emitted on the prompts of a validation?

Recordings of the very prompts that are decoded, made with `record` and read back: replayed, they
are the acceptance that predictions take. Token recycling is recorded once per tree, for its steps
are known by its own tree alone. Leaves out the replay (`walk`).
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from real_runs.prompt_set import PromptSet, prompt_set
from real_runs.recording.options import Progress, RecordOptions
from real_runs.recording.record import record
from real_runs.trials.trials import PromptCell
from real_runs.validation.cells import write_prompts
from real_runs.validation.configurations import (
    FITTED_RECYCLING_NODES,
    RECYCLING_NODES,
    Configuration,
)
from traces.kinds.acceptance import AcceptanceTrace
from traces.storage.acceptance_file import read_acceptance, write_acceptance

RECYCLING = "token-recycling"
RECYCLING_CONTEXT = 512  # no longer ones: every tree is decoded once for its recording
Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Recordings:
    """What drafters would have proposed in the validated prompts' answers.

    Attributes:
        traces: by drafter and draft tokens; the latter are 0 but for a drafter whose recording
            holds for one tree alone.
    """

    traces: Mapping[tuple[str, int], AcceptanceTrace]

    def of(self, configuration: Configuration) -> AcceptanceTrace | None:
        """The trace that a configuration replays, any for plain decoding; None: not recorded."""
        if not configuration.drafter:
            return next(iter(self.traces.values()))
        tokens = configuration.draft_tokens if configuration.drafter == RECYCLING else 0
        return self.traces.get((configuration.drafter, tokens))

    def places(self, configuration: Configuration, prompts: Sequence[str]) -> list[int] | None:
        """Where prompts stand in the trace of a configuration; None where they were not
        recorded.
        """
        trace = self.of(configuration)
        if trace is None or not set(prompts) <= set(trace.request_ids):
            return None
        return [trace.request_ids.index(prompt) for prompt in prompts]

    def output_tokens(self, prompts: Sequence[str]) -> int:
        """Tokens that the recorded answers have, the first ones left out."""
        trace = next(iter(self.traces.values()))
        return sum(
            int(trace.output_tokens[trace.request_ids.index(prompt)]) - 1 for prompt in prompts
        )


def make_recordings(
    options: RecordOptions,
    prompts: PromptSet,
    cells: Sequence[PromptCell],
    *,
    tell: Tell = lambda text: None,
) -> Recordings:
    """Record every drafter on every prompt, or read what an earlier call recorded.

    Args:
        options: drafters and how they are fitted; `out` holds the traces.
        prompts: of all cells.
        cells: where they belong: token recycling decodes those of single requests alone.
        tell: called with what is under way.
    """
    watching = tuple(name for name in options.drafters if name != RECYCLING)
    traces: dict[tuple[str, int], AcceptanceTrace] = {}
    for name, trace in _recorded(
        replace(options, drafters=watching), prompts, "watched", tell
    ).items():
        traces[name, 0] = trace
    if RECYCLING not in options.drafters:
        return Recordings(traces=traces)
    for phase, sizes in (("fit", FITTED_RECYCLING_NODES), ("score", RECYCLING_NODES)):
        wanted = {
            prompt
            for cell in cells
            if cell.phase == phase and cell.batch == 1 and cell.context <= RECYCLING_CONTEXT
            for prompt in cell.prompts
        }
        if not wanted:
            continue
        own = prompt_set(
            prompts.title, [prompt for prompt in prompts.prompts if prompt.id in wanted]
        )
        for nodes in sizes:
            tree_options = replace(options, drafters=(RECYCLING,), recycling_nodes=nodes)
            recorded = _recorded(tree_options, own, f"{phase}-tree-{nodes}", tell)
            traces[RECYCLING, nodes - 1] = recorded[RECYCLING]
    return Recordings(traces=traces)


def share_fits(recorded: Path, folder: Path) -> None:
    """Give drafters that decode the bridges that a recording fitted; a recipe inside each says whom
    it serves.
    """
    for path in recorded.glob("*/*-bridge.safetensors"):
        place = folder / path.name
        if not place.exists():
            shutil.copyfile(path, place)


def cell_traces(
    recordings: Recordings, cell: PromptCell, drafters: Sequence[str], folder: Path
) -> dict[str, Path]:
    """Traces of the prompts of one cell alone, as files that `optimize` reads, by drafter."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for name in drafters:
        trace = recordings.traces.get((name, 0))
        if trace is not None:
            chosen = np.array([trace.request_ids.index(prompt) for prompt in cell.prompts])
            files[name] = folder / f"{name}.parquet"
            write_acceptance(trace.select(chosen), files[name])
    return files


def _recorded(
    options: RecordOptions, prompts: PromptSet, part: str, tell: Tell
) -> dict[str, AcceptanceTrace]:
    recipe = repr((replace(options, out=Path(), resume=False), prompts.sha256))
    folder = options.out / f"{part}-{hashlib.sha256(recipe.encode()).hexdigest()[:8]}"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "prompts.toml"
    write_prompts(prompts, file)
    part_options = replace(options, out=folder, prompts=file, temperatures=(0.0,), resume=True)
    there = sorted(folder.glob("*--greedy.parquet"))
    if len(there) < len(options.drafters):

        def on_progress(at: Progress) -> None:
            tell(f"{part}: {at.stage} {at.done} of {at.total}")

        there = [recorded.path for recorded in record(part_options, progress=on_progress).files]
    return {path.stem.split("--")[1]: read_acceptance(path) for path in there}
