"""Steps that set their own pace: spans, samples and routed steps, at their limits and against
passes by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.drafters.drafter import build_drafter
from costmodel.laws.own_pace import own_pace
from costmodel.method import Draft, Routing, Samples, Spans
from costmodel.method_library import load_method
from costmodel.passes.forward import pass_cost
from hardware_profiles.errors import InputError
from tests.property_examples import examples

AT = {"batch": 4, "context": 4000}


def setting(slug, **advance):
    """The setting of an entry without an engine, whose record has other numbers."""
    method = load_method(slug)
    draft = "llama-3.2-1b" if method.needs_draft_model else None
    names = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="none")
    made = build_setting(DecodingConfiguration(method=slug, draft_model=draft, deployment=names))
    changed = replace(method, advance=replace(method.advance, **advance))
    return replace(made, drafter=replace(made.drafter, method=changed))


def seconds(made, tokens=None, **at):
    return float(estimate(made, own_pace(made.drafter.method, tokens), **AT | at).step_s)


def one_pass(made, rows, **at):
    return float(pass_cost(made.deployment, query_tokens=rows, **AT | at).total_s)


def test_one_sequence_is_plain_decoding():
    made = setting("first-finish-search", rows=1.0)
    assert seconds(made) == pytest.approx(one_pass(made, 1))
    assert float(estimate(made, own_pace(made.drafter.method), **AT).speedup) == pytest.approx(1.0)


@given(rows=st.floats(1.0, 30.0), more=st.floats(0.1, 10.0))
@settings(max_examples=examples(15))
def test_sequences_of_one_request_read_its_cache_once(rows, more):
    few, many = (setting("first-finish-search", rows=each) for each in (rows, rows + more))
    assert seconds(few) <= seconds(many) <= one_pass(many, 1, batch=4 * (rows + more))


def test_scoring_costs_a_pass_over_the_tokens_now_and_then():
    plain, scored = (
        setting("a-star-decoding", judged_tokens=0),
        setting("a-star-decoding", judged_tokens=64),
    )
    judge = float(
        pass_cost(
            scored.deployment, batch=32.0, query_tokens=64, context=4000, logits="last"
        ).total_s
    )
    assert seconds(scored) - seconds(plain) == pytest.approx(judge / 64)


def test_a_span_runs_most_layers_once_for_all_of_its_tokens():
    made = setting("block-transformer", layers=0.25)
    assert seconds(made, 8.0) < 8 * one_pass(made, 1)
    alone = seconds(made, 1.0)
    assert seconds(made, 2.0) > alone
    gains = [
        float(estimate(made, own_pace(made.drafter.method, n), **AT).speedup)
        for n in (1.0, 2.0, 4.0, 8.0)
    ]
    assert gains == sorted(gains)


def test_a_merged_cache_is_read_for_one_entry_per_span():
    whole, merged = (setting("block-transformer", merges_cache=flag) for flag in (False, True))
    assert seconds(merged, 4.0, context=60_000) < seconds(whole, 4.0, context=60_000)
    assert seconds(merged, 1.0) == pytest.approx(seconds(whole, 1.0))


def test_steps_that_all_stay_cost_the_draft_and_its_judge():
    made = setting("arbitrage", accepted_ratio=1.0, judge="none")
    drafted = float(estimate(made, own_pace(made.drafter.method), **AT).step.draft_s)
    assert seconds(made) == pytest.approx(drafted)
    judged = setting("arbitrage", accepted_ratio=1.0, judge="target")
    assert seconds(judged) - seconds(made) == pytest.approx(one_pass(judged, 32))


def test_steps_that_all_fall_are_written_twice():
    made = setting("arbitrage", accepted_ratio=0.0, judge="none")
    drafted = float(estimate(made, own_pace(made.drafter.method), **AT).step.draft_s)
    assert seconds(made) - drafted == pytest.approx(32 * one_pass(made, 1), rel=0.02)


@given(accepted=st.floats(0.0, 1.0))
@example(accepted=0.99999)
@settings(max_examples=examples(10))
def test_more_accepted_steps_cost_less(accepted):
    fewer, more = (setting("arbitrage", accepted_ratio=each) for each in (accepted / 2.0, accepted))
    assert seconds(more) <= seconds(fewer) * (1 + 1e-9)


def test_who_drafts_routed_steps_has_to_be_named():
    with pytest.raises(InputError, match="named"):
        build_drafter(load_method("arbitrage"), setting("h-net").target)


def test_entries_say_how_many_tokens_a_step_brings():
    method = load_method("h-net")
    assert own_pace(method).tokens_per_step == method.advance.tokens
    assert own_pace(method, 3.0).tokens_per_step == 3.0
    routed = replace(
        method,
        advance=Routing(draft=Draft(by="model"), tokens=32, accepted_ratio=0.5, judge="none"),
    )
    assert own_pace(routed).draft_tokens == 32
    for advance in (Spans(tokens=0.5, layers=2), Samples(rows=1.0, tokens=float(np.inf))):
        with pytest.raises(InputError, match="tokens_per_step"):
            own_pace(replace(method, advance=advance))
    with pytest.raises(InputError, match="of its own"):
        own_pace(load_method("eagle-3"))
