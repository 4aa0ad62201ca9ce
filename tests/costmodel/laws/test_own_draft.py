"""A recording of one draft alone answers for that draft, with its spread, and for no other."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.draft_shape import OFF, OWN, chain, given_tree, shape_of
from costmodel.laws.own_draft import holds_own_draft, own_draft
from costmodel.method_library import load_method
from costmodel.optimizers.candidates.asked_shapes import shape_acceptances
from costmodel.optimizers.candidates.usual_shapes import usual_shapes
from costmodel.optimizers.drafters.sources import trace_source
from hardware_profiles.errors import InputError
from traces.kinds.provenance import REPEATS_KEY
from traces.kinds.step_counts import NEW_TOKENS, STEPS
from traces.kinds.tree import Tree
from traces.library import read_trace, trace_file
from traces.replay.counted import recorded_tree
from traces.replay.statistics import request_draws

MEDUSA, REST = "gpu/vicuna-7b--medusa--greedy", "gpu/vicuna-7b-v1.5--rest--greedy"


def draws_of(trace):
    return request_draws(trace.prompt_kinds, generator=np.random.default_rng(0))


@pytest.mark.parametrize(("name", "nodes"), [(MEDUSA, 63), (REST, 64)])
def test_the_recorded_draft_alone_is_compared(name, nodes):
    source = trace_source(trace_file(name))
    assert usual_shapes(source) == usual_shapes(source, draft_tokens=[3]) == [OFF, OWN]
    off, own = shape_acceptances(source, [OFF, OWN], generator=np.random.default_rng(0))
    assert off.tokens_per_step == 1.0 and own.draft_tokens == nodes
    again = shape_acceptances(source, [shape_of(own)], generator=np.random.default_rng(0))
    assert again[0].tokens_per_step == own.tokens_per_step
    with pytest.raises(InputError, match="was not recorded"):
        shape_acceptances(source, [chain(3)], generator=np.random.default_rng(0))
    other = given_tree(Tree.from_paths([(0,), (1,)]))
    with pytest.raises(InputError, match="was not recorded"):
        shape_acceptances(source, [other], generator=np.random.default_rng(0))


def test_a_tree_that_is_handed_over_is_the_recorded_one():
    source = trace_source(trace_file(MEDUSA))
    tree = recorded_tree(source.trace)
    (own,) = shape_acceptances(source, [given_tree(tree)], generator=np.random.default_rng(0))
    assert own.tree == tree and own.tokens_per_step == source.own_tokens_per_step


def test_other_recordings_tell_of_many_drafts():
    trace = read_trace(trace_file("catalogue/smollm2-135m--rest--greedy"))
    assert not holds_own_draft(load_method("rest"), trace)


def test_the_spread_between_runs_widens_the_interval():
    """Runs that are as far apart as requests are double the variance."""
    method, trace = load_method("medusa"), read_trace(trace_file(MEDUSA))
    alike = own_draft(method, trace, draws_of(trace))
    steps = 100_000
    apart = [
        {STEPS: steps, NEW_TOKENS: round(steps * (alike.tokens_per_step + sign * 0.02))}
        for sign in (-1, 1)
    ]
    extra = {**trace.provenance.extra, REPEATS_KEY: apart}
    repeated = replace(trace, provenance=replace(trace.provenance, extra=extra))
    wider = own_draft(method, repeated, draws_of(trace))
    assert wider.tokens_per_step == alike.tokens_per_step
    about = alike.tokens_per_step
    over, both = (np.mean((a.samples - about) ** 2) for a in (alike, wider))
    assert both == pytest.approx(over + 0.0008, rel=1e-6)


def test_more_tokens_than_the_tree_can_emit_are_refused():
    trace = read_trace(trace_file(MEDUSA))
    summary = replace(trace.summary, drafts=1000, accepted_tokens=42754)
    columns = {STEPS: [1000] + [0] * 159, NEW_TOKENS: [43754] + [0] * 159}
    wrong = replace(trace, summary=summary, extra_columns=columns)
    with pytest.raises(InputError, match="must lie in"):
        own_draft(load_method("medusa"), wrong, None)


def test_pooled_counts_of_a_named_tree_have_no_spread():
    trace = replace(read_trace(trace_file(MEDUSA)), extra_columns={})
    own = own_draft(load_method("medusa"), trace, None)
    assert own.samples.size == 0
    assert own.tokens_per_step == pytest.approx(43754 / 17058, rel=1e-12)
