"""Runs as lines of a log: what is written is what is read."""

import json
from dataclasses import asdict

from hypothesis import given
from hypothesis import strategies as st

from real_runs.decoding.timed_pass import TimedPass
from real_runs.validation.runs import Run

COUNTS = st.integers(1, 1 << 20)
PASSES = st.lists(st.builds(TimedPass, COUNTS, COUNTS, COUNTS, st.floats(1e-7, 1e3)), max_size=5)


@given(passes=PASSES, counted=st.lists(st.tuples(COUNTS, COUNTS), max_size=3))
def test_a_run_survives_its_log_with_named_passes(passes, counted):
    run = Run(
        cell="ordinary, as they are, batch 1",
        configuration="plain",
        round=0,
        prompts=("a", "b"),
        tokens=4,
        steps=len(passes),
        request_steps=len(passes),
        drafted_tokens=0,
        decode_s=1.0,
        cpu_s=1.0,
        draft_s=0.0,
        verify_s=sum(timed_pass.wall_s for timed_pass in passes),
        passes=tuple(passes),
        output_sha256="",
        counted=tuple(counted),
    )
    back = Run.from_json(json.loads(json.dumps(asdict(run))))
    assert back == run
    assert [timed_pass.wall_s for timed_pass in back.passes] == [s for *_, s in passes]
