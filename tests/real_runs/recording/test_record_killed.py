"""A recording killed twenty times, wherever it happened to be, and one that another process works
on."""

import os
import random
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from hardware_profiles.errors import InputError
from real_runs.recording.options import RecordOptions
from real_runs.recording.record import record
from traces.storage.acceptance_file import read_acceptance

TEXTS = [
    "abc abc abc",
    "Hello!",
    "one two one two one",
    "def f(x):\n    return x\n\ndef g(x):",
    "x",
    "10 9 8 7",
]
OPTIONS = {
    "drafters": ("prompt-lookup", "layer-skip", "token-recycling"),
    "skip_bridge": False,
    "temperatures": (0.0, 1.0),
    "level": 3,
    "expansion_nodes": 6,
    "recycling_nodes": 9,
    "max_new_tokens": 12,
    "threads": 1,
}
# Records once undisturbed, then starts a process for every try, in which all libraries are loaded
# already; each is killed after so many pieces of work and a little longer. Prints how each try
# ended.
NURSERY = """
import os, signal, sys, time
from dataclasses import replace
from pathlib import Path
import real_runs.recording.record
from real_runs.recording.options import RecordOptions

undisturbed, out, model, prompts = map(Path, sys.argv[1:])
options = RecordOptions(out=undisturbed, model=model, prompts=prompts, resume=True, {options})
real_runs.recording.record.record(options)
options = replace(options, out=out)
for line in sys.stdin:
    pieces, more_s = line.split()
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            real_runs.recording.record.record(options, progress=lambda _: os.write(told, b"."))
            os._exit(0)
        except BaseException as error:
            sys.stderr.write(repr(error))
            os._exit(1)
    os.close(told)
    seen = 0
    while seen < int(pieces):
        new = os.read(heard, 1)
        if not new:
            break
        seen += 1
    time.sleep(float(more_s))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(heard)
    print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status), flush=True)
"""


def contents(path):
    """All that a trace holds but the times."""
    trace = read_acceptance(path)
    names = (
        "offsets",
        "emitted",
        "drafted",
        "rank",
        "draft_ids",
        "draft_probs",
        "target_probs",
        "emitted_target_prob",
        "residual_mass",
    )
    held = {name: getattr(trace, name) for name in names}
    if trace.expansions is not None:
        held |= {
            n: getattr(trace.expansions, n) for n in ("parents", "rank", "draft_prob", "on_path")
        }
    arrays = {
        name: None if each is None else np.asarray(each).tolist() for name, each in held.items()
    }
    plain = {
        name: list(c)
        for name, c in trace.extra_columns.items()
        if not name.endswith(("wall_s", "cpu_s"))
    }
    return trace.request_ids, arrays, plain, trace.provenance


@pytest.fixture(scope="module")
def options(tiny_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed")
    blocks = [
        f'[[prompts]]\nid = "p{i}"\nkind = "any"\ntext = {text!r}\n' for i, text in enumerate(TEXTS)
    ]
    prompts = folder / "prompts.toml"
    prompts.write_text('title = "six"\n' + "".join(blocks).replace("'", '"'))
    return RecordOptions(out=folder / "undisturbed", model=tiny_folder, prompts=prompts, **OPTIONS)


@pytest.mark.heavy
@pytest.mark.parametrize("kills", [8, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_many_times(options, tmp_path, kills):
    """Kills fall anywhere: while a model is loaded, within a request, between two, while files are
    written."""
    generator = random.Random(7)
    out = tmp_path / "killed"
    code = NURSERY.format(options=", ".join(f"{k}={v!r}" for k, v in OPTIONS.items()))
    places = [str(path) for path in (options.out, out, options.model, options.prompts)]
    nursery = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code, *places],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    ended, lines = [], []
    while ended.count(signal.SIGKILL) < kills and len(ended) < 2 * kills:
        # the requests that are finished report again, and up to one more does before the kill
        pieces = max(lines[-1] - 1, 0) + generator.randint(0, 1) if lines else 0
        nursery.stdin.write(f"{pieces} {generator.uniform(0, 0.1)}\n")
        nursery.stdin.flush()
        ended.append(int(nursery.stdout.readline()))
        part = out / "tiny-llama.part.jsonl"
        lines.append(part.read_bytes().count(b"\n") if part.exists() else 0)
    nursery.stdin.close()
    complaints = nursery.stderr.read()
    assert nursery.wait() == 0, complaints
    nursery.stdout.close()
    nursery.stderr.close()
    assert ended.count(signal.SIGKILL) == kills and set(ended) <= {signal.SIGKILL, 0}, (
        ended,
        complaints,
    )
    assert len(set(lines)) >= (4 if kills == 20 else 2), "the kills fell on different requests"

    report = record(RecordOptions(**{**dict(_fields(options)), "out": out, "resume": True}))
    assert len(report.files) == 6
    for file in report.files:
        assert contents(file.path) == contents(options.out / file.path.name), file.path.name
    names = {file.path.name for file in report.files}
    assert (
        {path.name for path in out.iterdir()}
        == {path.name for path in options.out.iterdir()}
        == names
    )


def _fields(options):
    return {field.name: getattr(options, field.name) for field in fields(options)}.items()


def test_two_recorders_do_not_share_a_part_file(options, tmp_path):
    """The second is refused while the first is at work, resuming or not, and nothing of the first
    is lost."""
    given = {
        **dict(_fields(options)),
        "out": tmp_path,
        "drafters": ("prompt-lookup",),
        "temperatures": (0.0,),
    }
    refused = []

    def meanwhile(progress):
        for resume in (False, True):
            with pytest.raises(InputError, match="another process is recording") as caught:
                record(RecordOptions(**{**given, "resume": resume}))
            refused.append(Path(caught.value.file).name)

    (file,) = record(RecordOptions(**given), progress=meanwhile).files
    assert refused == ["tiny-llama.part.jsonl"] * 2 * len(TEXTS)
    assert read_acceptance(file.path).requests == len(TEXTS)
    assert not list(tmp_path.glob("*.jsonl"))
