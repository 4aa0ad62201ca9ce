"""Acceptance of a recording by context."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.optimizers.drafters.context_parts import context_bounds, source_parts
from costmodel.optimizers.drafters.sources import Source
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.library import read_trace, trace_file


def recording(prompts, outputs):
    offsets = np.concatenate([[0], np.cumsum(outputs)]).astype(np.int64)
    return AcceptanceTrace(
        request_ids=tuple(map(str, range(len(prompts)))),
        prompt_kinds=("",) * len(prompts),
        prompt_tokens=np.array(prompts, dtype=np.int32),
        offsets=offsets,
        first_step_position=1,
        emitted=(1 + np.arange(offsets[-1]) % 3).astype(np.int16),
    )


@given(
    lengths=st.lists(st.tuples(st.integers(1, 60), st.integers(2, 40)), min_size=1, max_size=5),
    edge=st.integers(2, 90),
)
def test_contexts_share_out_all_positions(lengths, edge):
    """Every position from the first step on is in one part, at its own context, in order."""
    trace = recording(*zip(*lengths, strict=True))
    found = []
    for low, high in ((0.0, edge), (edge, np.inf)):
        try:
            part = trace.between_contexts(low, high)
        except InputError:
            continue
        for r in range(part.requests):
            own = part.emitted[part.offsets[r] : part.offsets[r + 1]]
            context = part.prompt_tokens[r] + np.arange(own.size)
            inside = slice(part.first_step_position, None)
            assert np.all((context[inside] >= low) & (context[inside] < high))
            found += own[inside].tolist()
    whole = [
        trace.emitted[trace.offsets[r] + 1 : trace.offsets[r + 1]] for r in range(trace.requests)
    ]
    assert sorted(found) == sorted(np.concatenate(whole).tolist())


def test_bounds_lie_between_contexts():
    assert context_bounds([1024]) == [(0.0, np.inf)]
    assert context_bounds([100, 400, 1600]) == [(0.0, 200.0), (200.0, 800.0), (800.0, np.inf)]


def test_what_cannot_be_told_by_context_is_refused():
    with pytest.raises(InputError, match="recorded positions"):
        source_parts(Source(method="eagle-3", kind="stated"), [1024, 4096])
    recorded = read_trace(trace_file("smollm2-135m--prompt-lookup--greedy"))
    source = Source(method="n-gram", kind="recorded", trace=recorded)
    with pytest.raises(InputError, match="must increase"):
        source_parts(source, [4096, 1024])
    with pytest.raises(InputError, match="holds no position"):
        source_parts(source, [1024, 1_000_000])
    unknown = replace(recorded, prompt_tokens=np.zeros_like(recorded.prompt_tokens))
    with pytest.raises(InputError, match="prompt_tokens"):
        source_parts(replace(source, trace=unknown), [64, 1024])
    assert [contexts for contexts, _ in source_parts(source, [64, 256])] == [(64,), (256,)]
