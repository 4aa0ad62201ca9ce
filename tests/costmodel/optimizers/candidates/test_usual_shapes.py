"""Where a question leaves shapes open, those are compared that what is known of a drafter tells of."""

import numpy as np
import pytest

from costmodel.draft_shape import shape_of
from costmodel.method import Stop
from costmodel.optimizers.candidates.asked_shapes import shape_acceptances
from costmodel.optimizers.candidates.usual_shapes import (
    CHAIN_LENGTHS,
    NGRAM_LENGTHS,
    usual_shapes,
)
from costmodel.optimizers.drafters.sources import length_source, rates_source, trace_source
from hardware_profiles.errors import InputError
from traces.library import trace_file


def spelled(source, **stated):
    return [str(shape) for shape in usual_shapes(source, **stated)]


def chains(lengths):
    return ["off", *(f"chain:{length}" for length in lengths)]


def test_numbers_tell_of_chains_up_to_what_is_known():
    one, three = rates_source("eagle-3", [0.7]), rates_source("eagle-3", [0.7, 0.5, 0.3])
    assert spelled(one) == chains(CHAIN_LENGTHS) and spelled(three) == chains([1, 2, 3])
    assert spelled(three, draft_tokens=[2, 9]) == chains([2, 9])
    assert spelled(rates_source("n-gram", [0.7], match_rate=0.5)) == chains(NGRAM_LENGTHS)
    assert spelled(rates_source("ppd", [0.7, 0.5]), draft_tokens=[8]) == ["off", "prompted:8"]
    with pytest.raises(InputError, match="do not tell when a draft ends"):
        usual_shapes(one, stop=Stop(rule="product", at=0.3))
    with pytest.raises(InputError, match="verifies no drafts"):
        usual_shapes(length_source("fast-dllm", 2.0))


def test_a_recording_tells_of_trees_and_of_drafts_that_end():
    source = trace_source(trace_file("smollm2-135m--early-exit--greedy"))
    stop = Stop(rule="ema", at=0.5)
    shapes = usual_shapes(source, draft_tokens=[2, 4], tree_sizes=[8], stop=stop)
    texts = [str(shape) for shape in shapes]
    assert texts[:3] == chains([2, 4]) and {"tree:8", "tree:8:vector"} <= set(texts)
    assert [text for text in texts if "+ema" in text]
    found = shape_acceptances(source, shapes, generator=np.random.default_rng(0))
    assert [str(shape_of(each)) for each in found] == texts
