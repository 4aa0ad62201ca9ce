"""A joint search finds what looking at every design finds, and marks what cannot run."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.answers.estimate import step_cost
from costmodel.answers.fit import room
from costmodel.answers.replicas import most_sharing, replica_prompts, replica_speeds, step_rows
from costmodel.optimizers.joint.evaluation import budgeted, under_load
from costmodel.optimizers.joint.search import (
    _bound,
    joint_search,
    nodes_of,
)
from costmodel.optimizers.layouts import layout_named, usual_layouts
from costmodel.optimizers.unmet import NothingAllowedError
from tests.costmodel.optimizers.joint.joint_questions import question, slo
from tests.property_examples import examples

pytestmark = pytest.mark.heavy

QUESTIONS = st.builds(
    question,
    st.sampled_from(["llama-3.1-8b", "qwen3-30b-a3b"]),
    prompt=st.sampled_from([64, 1024, 6000]),
    output=st.sampled_from([16, 256]),
    rate=st.sampled_from([0.5, 20.0]),
    maximise=st.sampled_from(["tokens", "goodput", "tokens-per-dollar", "tokens-per-joule"]),
    rate_stated=st.booleans(),
    slo=st.builds(slo, st.sampled_from([None, 15.0, 60.0]), st.sampled_from([None, 900.0])),
    device_names=st.sampled_from([["h100-sxm", "l4"], ["a100-sxm-80", "h200-sxm"]]),
    weight_formats=st.sampled_from([(None,), ("fp8", "bf16")]),
)


def described(designs):
    return [
        (d.configuration, d.scheduler, d.replicas, d.value, d.tpot_s, d.ttft_s) for d in designs
    ]


@settings(max_examples=examples(6), deadline=None)
@given(asked=QUESTIONS, ranked=st.integers(1, 4))
def test_pruning_changes_nothing_that_is_found(asked, ranked):
    try:
        every = joint_search(asked, ranked=ranked, prune=False)
    except NothingAllowedError:
        with pytest.raises(NothingAllowedError):
            joint_search(asked, ranked=ranked)
        return
    pruned = joint_search(asked, ranked=ranked)
    assert described(pruned.ranked) == described(every.ranked)
    assert described(pruned.front) == described(every.front)
    assert pruned.considered == every.considered == every.evaluated and every.pruned == 0


@settings(max_examples=examples(6), deadline=None)
@given(asked=QUESTIONS)
def test_bounds_are_never_below_what_designs_reach(asked):
    for node in nodes_of(asked)[0]:
        steady = node.steady(asked.load)
        found = under_load(asked, node, steady)
        user, device = 1.0 / found.busy.tpot_s, found.busy.requests_per_s * asked.load.output_tokens
        device = device / node.placement.layout.devices
        for value, *most in (_bound(asked, node), _bound(asked, node, steady)):
            assert value >= found.value.max()
            x, y = (each.reshape(-1, 1, node.batch.size) for each in most)
            assert np.all(np.where(found.fits, user, 0.0) <= x * (1 + 1e-9))
            assert np.all(np.where(found.fits, device, 0.0) <= y * (1 + 1e-9))


@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-30b-a3b"])
def test_brute_force_over_a_small_grid(model):
    """The best of all designs, each costed by itself with the public laws."""
    asked = question(model, slo=slo(tpot_ms=30.0), layouts=usual_layouts(model, 2)[:2])
    values = {}
    for node in nodes_of(asked)[0]:
        for a in node.candidates:
            for budget in asked.token_budgets:
                space = room(budgeted(node.setting, budget), a, context=asked.load.longest_context)
                rows = step_rows(node.setting, a, asked.load.decode_context)
                most = most_sharing(
                    asked.load, rows, budget, asked.load.output_tokens / a.tokens_per_step
                )
                for batch in node.batch[
                    node.batch <= min(space.largest_batch, float(most))
                ].tolist():
                    b = np.array(batch)
                    step = step_cost(
                        node.setting, a, batch=b, context=asked.load.decode_context
                    ).total_s
                    prompts = replica_prompts(
                        node.setting,
                        asked.load,
                        batch=b,
                        rows=rows,
                        drafts=a.draft_tokens > 0,
                        token_budget=float(budget),
                    )
                    speeds = replica_speeds(
                        node.setting,
                        b,
                        step,
                        prompts,
                        output_tokens=256.0,
                        tokens_per_step=a.tokens_per_step,
                    )
                    if speeds.tpot_s <= 0.03:
                        replicas = 2 // node.placement.layout.devices
                        key = (
                            node.placement.device,
                            str(node.placement.layout),
                            node.configuration.method,
                            a.draft_tokens,
                        )
                        rate = replicas * float(speeds.requests_per_s) * 256.0
                        values[(*key, budget, batch)] = rate
    best = joint_search(asked).ranked[0]
    where = best.contender.placement
    key = (where.device, str(where.layout), best.configuration.method, best.acceptance.draft_tokens)
    assert best.value == pytest.approx(max(values.values()), rel=1e-9)
    assert values[(*key, best.scheduler.token_budget, best.batch)] == pytest.approx(
        best.value, rel=1e-9
    )


def test_what_does_not_fit_is_a_marked_placement():
    found = joint_search(
        question(
            "llama-3.3-70b",
            device_names=["h100-sxm", "l4"],
            most_devices=4,
            layouts=usual_layouts("llama-3.3-70b", 4),
            slo=slo(tpot_ms=200.0),
        )
    )
    marked = {
        (each.placement.device, str(each.placement.layout)): each.reason for each in found.unmet
    }
    assert "memory" in marked["l4", "tp4"] and "memory" in marked["h100-sxm", "tp1"]
    assert {each.contender.placement.device for each in found.ranked} == {"h100-sxm"}
    with pytest.raises(NothingAllowedError, match="memory"):
        joint_search(question("llama-3.3-70b", device_names=["l4"]))


def test_a_layout_that_does_not_divide_is_marked_and_a_format_without_a_peak_is():
    odd = joint_search(question(layouts=[layout_named("tp1"), layout_named("tp3")], most_devices=3))
    assert {str(each.placement.layout) for each in odd.unmet} == {"tp3"}
    formats = joint_search(
        question(device_names=["a100-sxm-80", "h100-sxm"], weight_formats=["fp4"]), ranked=2
    )
    assert all(each.reason for each in formats.unmet)


def test_an_objective_that_is_not_known_marks_the_device():
    asked = question(device_names=["h100-sxm", "h20"], maximise="tokens-per-dollar")
    assert {each.placement.device for each in joint_search(asked).unmet} == {"h20"}


def test_limits_that_nothing_meets_say_the_least():
    with pytest.raises(NothingAllowedError, match="TPOT"):
        joint_search(question(slo=slo(tpot_ms=0.01)))


def test_a_stated_rate_is_served_by_the_fewest_replicas_that_carry_it():
    few = joint_search(question(maximise="tokens-per-dollar", rate_stated=True, rate=0.5)).ranked[0]
    many = joint_search(question(maximise="tokens-per-dollar", rate_stated=True, rate=40.0)).ranked
    assert few.devices <= many[0].devices <= 2
    assert few.requests_per_s * 0.8 >= 0.5 and all(
        each.requests_per_s * 0.8 >= 40.0 for each in many
    )
    with pytest.raises(
        NothingAllowedError, match=r"1000 requests/s: no design carries them .* at most 43"
    ):
        joint_search(question(maximise="tokens-per-dollar", rate_stated=True, rate=1000.0))
    served = joint_search(question(maximise="tokens", rate_stated=True, rate=1000.0)).ranked[0]
    assert served.requests_per_s * 0.8 < 1000.0
