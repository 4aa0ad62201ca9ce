"""The page of a simulation: figures that say what was simulated, escaped names, and nothing where
nothing finished."""

import dataclasses
import json
import re

import numpy as np
import pytest

from app.render.html.simulation_page import (
    MOST_POINTS,
    LoadPoint,
    SimulationCase,
    histogram_shares,
    shares,
    write_simulation_page,
)
from costmodel.answers.workload import Limits
from hardware_profiles.errors import InputError
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions
from simulator.loop.request import REJECTED, Workload
from simulator.results.steady import steady_summary

pytest.importorskip("plotly", reason="plotly, of the extra `app`, is not installed")


def timer(decode_requests, query_tokens, decode_context_tokens, prefill, longest_context=0.0):
    return 1e-3 + 1e-6 * sum(new for new, _ in prefill)


def case(name, requests=50, replicas=1):
    generator = np.random.default_rng(6)
    workload = Workload(
        arrival_s=np.sort(generator.uniform(0.0, 0.5, requests)),
        prompt_tokens=generator.integers(1, 300, requests, dtype=np.int32),
        output_tokens=generator.integers(1, 60, requests, dtype=np.int32),
    )
    options = SchedulerOptions(kv_blocks=200, token_budget=256, max_requests=8)
    result = simulate(
        Scenario(workload=workload, scheduler=options, timer=timer, replicas=replicas)
    )
    return SimulationCase(
        name=name, result=result, metrics=steady_summary(result, Limits(ttft_s=0.1))
    )


def figures_of(file):
    found = re.search(
        r'<script type="application/json" id="figures">(.*?)</script>', file.read_text(), re.DOTALL
    )
    return json.loads(found[1])


def test_a_page_of_one_case(tmp_path):
    only = case("as asked")
    write_simulation_page([only], [], tmp_path / "p.html", title="a <b> title")
    figures = figures_of(tmp_path / "p.html")
    assert set(figures) == {
        "plot-ttft",
        "plot-tpot",
        "plot-itl",
        "plot-running",
        "plot-waiting",
        "plot-cache",
    }
    (line,) = figures["plot-ttft"]["data"]
    window = only.metrics["window"]
    arrival = only.result.arrival_s
    counted = (arrival >= window["begin_s"]) & (arrival < window["end_s"])
    assert counted.sum() == window["requests"] < only.result.request.size
    assert line["x"][0] == pytest.approx(np.nanmin(only.result.ttft_s[counted]))
    assert line["x"] == sorted(line["x"]) and line["y"] == sorted(line["y"])
    assert max(figures["plot-running"]["data"][0]["y"]) <= 8
    text = (tmp_path / "p.html").read_text()
    assert "a &lt;b&gt; title" in text and "<b> title" not in text


def test_cases_and_loads_are_overlaid(tmp_path):
    cases = [case("<i>one</i>"), case("two", replicas=2)]
    load = [
        LoadPoint(name=c.name, rate_per_s=rate, metrics=c.metrics)
        for rate in (8.0, 2.0)
        for c in cases
    ]
    write_simulation_page(cases, load, tmp_path / "p.html", title="two")
    figures = figures_of(tmp_path / "p.html")
    names = [line["name"] for line in figures["plot-ttft"]["data"]]
    assert names == ["&lt;i&gt;one&lt;/i&gt;", "two"]
    assert len(figures["plot-cache"]["data"]) == 3  # a line per replica
    for line in figures["plot-goodput"]["data"]:
        assert line["x"] == [2.0, 8.0]
    assert len(figures["plot-trade"]["data"][0]["x"]) == 2
    assert "<i>one" not in (tmp_path / "p.html").read_text()


def test_distributions_end_at_the_last_in_a_thousand():
    values = np.arange(10_000.0)
    x, y = shares(np.append(values, np.nan))
    assert len(x) == MOST_POINTS and x[0] == 0.0 and x[-1] == pytest.approx(9989, abs=1)
    at = np.interp(0.5, y, x)
    assert at == pytest.approx(np.median(values), rel=0.01)
    assert shares(np.array([np.nan])) == ([], [])
    assert shares(np.array([3.0])) == ([3.0], [1.0])


def test_binned_waits_lie_within_a_bin_of_their_percentiles():
    waits = case("x").result.itl
    x, y = histogram_shares(waits)
    assert y == sorted(y) and y[0] > 0 and y[-1] <= 0.999
    half = next(a for a, b in zip(x, y, strict=True) if b >= 0.5)
    assert half == pytest.approx(waits.percentile_s(50), rel=0.02)
    assert histogram_shares(dataclasses.replace(waits, counts=np.zeros_like(waits.counts))) == (
        [],
        [],
    )


def test_nothing_finished_is_nothing_to_draw(tmp_path):
    only = case("x", requests=3)
    none = dataclasses.replace(only.result, ending=np.full(3, REJECTED, dtype=np.uint8))
    with pytest.raises(InputError, match="no request finished"):
        write_simulation_page(
            [dataclasses.replace(only, result=none)], [], tmp_path / "p.html", title="x"
        )
    assert not list(tmp_path.iterdir())
