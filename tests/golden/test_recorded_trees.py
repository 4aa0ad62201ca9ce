"""Trees built from our own recordings against sibling-vector trees: on the half that chose them,
and on the other."""

import numpy as np
import pytest

from costmodel.optimizers.held_out.trees import held_out_comparison
from traces.library import read_trace, shipped_traces

RECORDINGS = [path for path in shipped_traces() if "early-exit" in path.stem]
SIZES = (4, 8, 16, 32, 64)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_both_trees_on_both_halves(path):
    trace = read_trace(path)
    found = held_out_comparison(trace, SIZES, 8, generator=np.random.default_rng(0))
    print(f"\n{path.stem}: tokens per step, trace tree / vector tree")
    for size, row in zip(SIZES, found, strict=True):
        own, own_vector = row.chosen.tokens_per_step, row.chosen.dp_tokens_per_step
        other, other_vector = row.tokens_per_step, row.dp_tokens_per_step
        print(
            f"  {size:3} draft: chosen on {own:.4f} / {own_vector:.4f}, held out {other:.4f} /"
            f" {other_vector:.4f} ({other / other_vector - 1:+.2%})"
        )
        assert own >= own_vector, "never worse where it was chosen"
        assert 1.0 <= other <= own * 1.2
        assert other >= 0.97 * other_vector, "no collapse held out"


def test_recordings_are_of_the_promised_size():
    assert len(shipped_traces()) == 4
    for path in shipped_traces():
        trace = read_trace(path)
        assert trace.positions >= 4000
        assert trace.requests >= 32
        assert len(set(trace.prompt_kinds)) == 6
        assert path.stat().st_size < 2**20
        assert 0.0 <= trace.provenance.extra["looped_ratio"] < 0.1
        assert trace.level == (2 if "early-exit" in path.stem else 1)


def test_prompt_lookup_gains_where_text_is_copied():
    """Overlap is what prompt lookup lives on: editing and summarising beat chat and reasoning,
    greedy or sampled."""
    from traces.replay.walk import replay_chain

    for path in shipped_traces():
        if "prompt-lookup" not in path.stem:
            continue
        trace = read_trace(path)

        def rate(kind, trace=trace):
            return replay_chain(
                trace.select([i for i, k in enumerate(trace.prompt_kinds) if k == kind]), 5
            ).tokens_per_step

        copied = min(rate("code editing"), rate("summarising"))
        assert copied > max(rate("chat"), rate("reasoning"))
