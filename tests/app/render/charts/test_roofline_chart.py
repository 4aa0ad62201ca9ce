"""Figures of explained steps and break-evens: everything drawn, in its place, escaped, and with
safe colours."""

from dataclasses import replace

import numpy as np
import pytest

from app.answers.breakeven.rows import BreakEvenPoint
from app.answers.explanations import explained_step, roofs_of
from app.render.charts.roofline_chart import (
    ROOF_COLORS,
    break_even_figure,
    roofline_figure,
    step_bar_figure,
)
from costmodel.answers.explain import explain
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from hardware_profiles.units import MILLI, TERA

SETTING = build_setting(
    DecodingConfiguration(
        method="eagle-3", deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm")
    )
)
POINT = BreakEvenPoint(
    model="llama-3.1-8b",
    device="h100-sxm",
    engine="vllm",
    batch=1,
    context=512,
    draft_tokens=3,
    verdict="on",
    least_tokens_per_step=1.4,
    least_tokens_per_step_interval=(1.3, 1.5),
    most_tokens_per_step=4.0,
    least_acceptance=0.3,
    least_acceptance_interval=(0.25, 0.35),
    draft_s=0.001,
    draft_ratio=0.2,
    target_pass_s=0.005,
)
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def step():
    return explained_step(
        explain(
            SETTING, geometric(0.7, 3), batch=8, context=1024, generator=np.random.default_rng(0)
        )
    )


def test_operations_lie_under_their_roofs(step):
    figure, roofs = roofline_figure(step, roofs_of(SETTING)), roofs_of(SETTING)
    drawn = [
        (x, y) for trace in figure["data"][1:] for x, y in zip(trace["x"], trace["y"], strict=True)
    ]
    assert len(drawn) == sum(o.intensity_flops_per_byte is not None for o in step.operations)
    for x, y in drawn:
        assert y <= 1.05 * min(x * roofs.bandwidth_bytes_per_s, roofs.peak_flops_per_s) / TERA
    assert figure["layout"]["xaxis"]["type"] == figure["layout"]["yaxis"]["type"] == "log"


def test_the_ridge_is_where_the_roofs_meet(step):
    roof = roofline_figure(step, roofs_of(SETTING))["data"][0]
    low, ridge, high = roof["x"]
    assert ridge == pytest.approx(989.4e12 / 3350e9)
    assert (
        roof["y"][0] / roof["y"][1] == pytest.approx(low / ridge) and roof["y"][1] == roof["y"][2]
    )
    assert (
        low
        < min(
            x for trace in roofline_figure(step, roofs_of(SETTING))["data"] for x in trace["x"][1:]
        )
        < high
    )


def test_bars_sum_to_the_step(step):
    figure = step_bar_figure(step)
    total = sum(sum(trace["x"]) for trace in figure["data"]) * MILLI
    seconds = sum(o.seconds for o in step.operations)
    assert total == pytest.approx(seconds, rel=0.02)  # the smallest operations are left out
    assert figure["layout"]["barmode"] == "stack"
    assert {trace["name"] for trace in figure["data"]} <= set(ROOF_COLORS)


def points():
    return [
        replace(
            POINT,
            batch=b,
            context=c,
            least_acceptance=None if b == 64 else 0.2 + c / 1e5,
            speedup=2.0 / b,
        )
        for c in (512, 4096)
        for b in (1, 8, 64)
        if (b, c) != (8, 4096)
    ]


def test_heat_maps_tell_never_from_too_large():
    heat = break_even_figure(points(), of="least_acceptance", title="least acceptance")["data"][0]
    assert heat["x"] == ["1", "8", "64"] and heat["y"] == ["512", "4,096"]
    assert (
        heat["text"][0][2] == "never"
        and heat["text"][1][1] == "too large"
        and heat["z"][1][1] is None
    )
    assert heat["colorscale"] == "Cividis"


def test_speedups_are_coloured_around_one():
    heat = break_even_figure(points(), of="speedup", title="speedup")["data"][0]
    assert heat["zmax"] - 1.0 == pytest.approx(1.0 - heat["zmin"]) and heat[
        "zmax"
    ] == pytest.approx(2.0)
    assert heat["colorscale"][0][1] == "#D55E00" and heat["colorscale"][2][1] == "#0072B2"


def test_names_are_escaped(step):
    hostile = replace(step, operations=[replace(o, name=HOSTILE) for o in step.operations])
    figures = [
        roofline_figure(hostile, replace(roofs_of(SETTING), device=HOSTILE)),
        step_bar_figure(hostile),
        break_even_figure(points(), of="speedup", title=HOSTILE),
    ]
    assert not any("<img" in str(figure) for figure in figures)
