"""Layouts: the front is what brute force finds, points are those of the cost model, and what cannot
be says why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.estimate import estimate
from costmodel.answers.fit import fits
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.optimizers.layouts import (
    Layout,
    LayoutPoint,
    every_point,
    front_of,
    layout_named,
    layouts_of,
    most_per_device,
    usual_layouts,
)
from hardware_profiles.errors import InputError

SPEEDS = st.floats(0.1, 1e4)
POINTS = st.lists(
    st.builds(
        LayoutPoint,
        layout=st.just(Layout()),
        batch=st.integers(1, 1024),
        draft_tokens=st.integers(0, 8),
        user_tokens_per_s=SPEEDS,
        device_tokens_per_s=SPEEDS,
    ),
    max_size=30,
)
CHAINS = [geometric(0.7, k) for k in range(4)]


def asked(model, **where):
    return DecodingConfiguration(method="eagle-3", deployment=DeploymentNames(model=model, **where))


def beats(one, other):
    """Whether one point is at least as good in both speeds and better in one."""
    ours, theirs = ((p.user_tokens_per_s, p.device_tokens_per_s) for p in (one, other))
    return all(a >= b for a, b in zip(ours, theirs, strict=True)) and ours != theirs


@given(POINTS)
def test_the_front_is_what_nothing_beats(points):
    front = front_of(points)
    unbeaten = [p for p in points if not any(beats(other, p) for other in points)]
    speeds = {(p.user_tokens_per_s, p.device_tokens_per_s) for p in front}
    assert speeds == {(p.user_tokens_per_s, p.device_tokens_per_s) for p in unbeaten}
    assert len(front) == len(speeds)
    assert [p.device_tokens_per_s for p in front] == sorted(p.device_tokens_per_s for p in front)


@given(POINTS, SPEEDS)
def test_the_most_per_device_at_a_pace_lies_on_the_front(points, pace):
    best = most_per_device(points, pace)
    able = [p.device_tokens_per_s for p in points if p.user_tokens_per_s >= pace]
    assert (best is None) == (not able)
    if best is not None:
        assert best.device_tokens_per_s == max(able)
        assert max(
            p.device_tokens_per_s for p in front_of(points) if p.user_tokens_per_s >= pace
        ) == max(able)


@pytest.mark.parametrize(
    ("model", "device"), [("llama-3.1-8b", "h100-sxm"), ("deepseek-v3", "h200-sxm")]
)
def test_a_point_is_the_best_chain_of_its_layout_that_fits(model, device):
    question = asked(model, device=device)
    points, left_out = every_point(question, CHAINS, context=2048, batches=[1, 5, 64, 512])
    assert {p.layout for p in points} | set(left_out) == set(layouts_of(model))
    for point in points[:: max(len(points) // 12, 1)]:
        setting, at = (
            build_setting(point.layout.on(question)),
            {"batch": point.batch, "context": 2048},
        )
        able = [
            a
            for a in CHAINS
            if bool(a.draft_tokens) == bool(point.draft_tokens) and fits(setting, a, **at).all()
        ]
        rates = {a.draft_tokens: float(estimate(setting, a, **at).tokens_per_s) for a in able}
        assert rates[point.draft_tokens] == max(rates.values())
        assert point.user_tokens_per_s * point.batch == pytest.approx(rates[point.draft_tokens])
        assert point.device_tokens_per_s * point.layout.devices == pytest.approx(
            rates[point.draft_tokens]
        )


def test_experts_are_spread_where_there_are_any():
    assert [each.name for each in layouts_of("llama-3.1-8b", tensor_parallel=3)] == [
        "tp 1",
        "tp 2",
        "tp 3",
        "tp 4",
        "tp 8",
    ]
    assert layouts_of("deepseek-v3")[-1].name == "dp 32, ep 32"
    spread = Layout(tensor=2, data=8, expert=16).on(asked("deepseek-v3")).deployment
    assert (spread.tensor_parallel, spread.data_parallel, spread.expert_parallel) == (2, 8, 16)


def test_what_does_not_divide_or_fit_says_so():
    points, left_out = every_point(
        asked("llama-3.1-70b", tensor_parallel=3), CHAINS, context=1024, batches=[1, 8]
    )
    assert "heads" in left_out[Layout(tensor=3)]
    assert left_out[Layout(tensor=1)] == "not one request fits"
    assert {p.layout.tensor for p in points} == {2, 4, 8}


def test_data_copies_have_a_request_each():
    points, _ = every_point(asked("qwen3-30b-a3b"), CHAINS, context=1024, batches=[4, 16])
    assert {p.layout.data for p in points if p.batch == 4} == {1}
    assert {p.layout.data for p in points if p.batch == 16} == {1, 8, 16}


def test_layouts_have_names_and_sizes():
    assert str(layout_named("tp2dp4ep8")) == "tp2dp4ep8" and layout_named("tp2dp4ep8").devices == 8
    for wrong in ("", "tp0", "tp2tp4", "x2", "tp2ep3", "2"):
        with pytest.raises(InputError):
            layout_named(wrong)
    assert [str(each) for each in usual_layouts("llama-3.1-8b", 5)] == ["tp1", "tp2", "tp4"]
    assert "dp2ep2" in {str(each).removeprefix("tp1") for each in usual_layouts("qwen3-30b-a3b", 2)}
