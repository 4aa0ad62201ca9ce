"""The highest rate within limits is that of a queue with a known law, and a run of its own at it
agrees."""

from math import exp, factorial

import numpy as np
import pytest
from scipy.optimize import brentq

from app.answers.simulations.highest_rates import RESOLUTION, highest_rate
from app.render.html.simulation_page import LoadPoint
from costmodel.answers.workload import Limits
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions
from simulator.loop.request import Workload
from simulator.loop.tables import no_tables
from simulator.results.steady import steady_window
from simulator.scenario.arrivals import poisson

SERVICE_S, LIMIT_S, SHARE, REQUESTS = 0.01, 0.05, 0.9, 6000


def waits_at_most(rate_per_s, wait_s):
    """P(wait <= t) of one server with Poisson arrivals and a fixed service time: Erlang 1909,
    Crommelin 1932."""
    terms = [
        (rate_per_s * (k * SERVICE_S - wait_s)) ** k
        / factorial(k)
        * exp(-rate_per_s * (k * SERVICE_S - wait_s))
        for k in range(int(wait_s / SERVICE_S + 1e-9) + 1)
    ]
    return (1.0 - rate_per_s * SERVICE_S) * sum(terms)


class AlwaysAsLong:
    """Of an iteration, as tables that the compiled loop reads."""

    def tables(self, size, *, drafts):
        return no_tables()._replace(step_s=SERVICE_S)

    def __call__(self, *pass_of):
        return SERVICE_S


def one_server(rate_per_s):
    """One request at a time, each for one iteration."""
    one = np.ones(REQUESTS, dtype=np.int32)
    arrivals = poisson(REQUESTS, rate_per_s, np.random.default_rng(3))
    scenario = Scenario(
        workload=Workload(arrival_s=arrivals, prompt_tokens=one, output_tokens=one),
        timer=AlwaysAsLong(),
        scheduler=SchedulerOptions(kv_blocks=8, token_budget=1, max_requests=1),
    )
    good = steady_window(simulate(scenario), Limits(ttft_s=LIMIT_S)).good_ratio
    return LoadPoint(
        name="one", rate_per_s=rate_per_s, metrics={"good_ratio": good, "is_kept": good >= SHARE}
    )


@pytest.mark.heavy
def test_it_is_that_of_a_queue_with_a_known_law():
    known = brentq(lambda rate: waits_at_most(rate, LIMIT_S - SERVICE_S) - SHARE, 1.0, 99.0)
    kept, lost = highest_rate(one_server, 60.0)
    assert kept.rate_per_s == pytest.approx(known, rel=0.05)
    assert kept.metrics["good_ratio"] >= SHARE > lost.metrics["good_ratio"]
    assert 1.0 < lost.rate_per_s / kept.rate_per_s <= RESOLUTION


@pytest.mark.parametrize("start", [0.01, 7.0, 1e4])
def test_it_is_found_from_any_start(start):
    kept, lost = highest_rate(
        lambda rate: LoadPoint(name="", rate_per_s=rate, metrics={"is_kept": rate < 40}), start
    )
    assert kept.rate_per_s < 40 <= lost.rate_per_s <= RESOLUTION * kept.rate_per_s


def test_what_is_always_or_never_kept_has_none():
    def always(good):
        return lambda rate: LoadPoint(name="", rate_per_s=rate, metrics={"is_kept": good})

    assert highest_rate(always(True), 1.0)[1] is None
    assert highest_rate(always(False), 1.0)[0] is None


TRAFFIC = (
    "--count",
    "120",
    "--prompt-tokens",
    "uniform:50:800",
    "--output-tokens",
    "40",
    "--rate",
    "4",
)
WORDS = ("simulate", "--model", "llama-3.1-8b", "--drafter", "eagle-3:0.8,0.6,0.4", *TRAFFIC)
LIMITS = ("--slo-ttft", "200", "--slo-tpot", "9")


def test_every_draft_length_has_its_rate_and_a_run_there_agrees(rooftree, tmp_path):
    done = rooftree(
        *WORDS,
        "--draft-tokens",
        "0,3",
        *LIMITS,
        "--rates",
        "2,8",
        "--seeds",
        "2",
        "--json",
        "--plot",
        tmp_path / "load.html",
    ).answer
    off, drafted = done["highest_rates"]
    assert (off["name"], drafted["name"]) == ("off", "chain:3") and done["good_share"] == 0.9
    assert 0 < off["rate_per_s"] < drafted["rate_per_s"]
    assert all(
        low <= high for low, high in (off["rate_per_s_interval"], drafted["rate_per_s_interval"])
    )
    assert [(p["name"], p["rate_per_s"]) for p in done["load"]] == [
        (name, rate) for name in ("off", "chain:3") for rate in (2.0, 8.0)
    ]
    page = (tmp_path / "load.html").read_text()
    assert "Requests within the limits" in page and "Goodput against load" in page
    rates = f"{drafted['rate_per_s']!r},{drafted['above_per_s']!r}"
    again = rooftree(
        *WORDS, "--draft-tokens", "3", *LIMITS, "--good-share", "0.9", "--rates", rates, "--json"
    ).answer
    at, above = (point["metrics"] for point in again["load"])
    assert (at["good_ratio"], at["goodput_per_s"]) == (
        drafted["good_ratio"],
        drafted["goodput_per_s"],
    )
    assert at["good_ratio"] >= 0.9 > above["good_ratio"]
    as_long = ("--rate", repr(drafted["rate_per_s"]), "--count", str(drafted["requests"]))
    run = rooftree(*WORDS, "--draft-tokens", "3", *LIMITS, *as_long, "--json").answer
    assert run["metrics"]["goodput_per_s"] == drafted["goodput_per_s"]
    printed = rooftree(*WORDS, "--draft-tokens", "0,3", *LIMITS).out
    assert "up to requests/s" in printed and "90% of the requests" in printed


@pytest.mark.parametrize(
    "limits", [("--slo-tpot", "20"), ("--slo-ttft", "300", "--slo-tpot", "20")]
)
def test_the_highest_rate_is_that_of_a_steady_state_however_few_requests_are_asked_for(
    rooftree, limits
):
    """A run that ends before its backlog has grown keeps limits at rates that do not last: 320
    requests told 30.8/s where 6,000 told 24.1."""
    long = (
        "simulate",
        "--model",
        "llama-3.1-8b",
        "--drafter",
        "eagle-3:0.78,0.61,0.48",
        "--prompt-tokens",
        "1024",
        "--output-tokens",
        "256",
        "--rate",
        "4",
        "--draft-tokens",
        "0,3",
        *limits,
        "--json",
    )
    few, many = (
        rooftree(*long, "--count", count).answer["highest_rates"] for count in ("320", "4000")
    )
    for one, other in zip(few, many, strict=True):
        assert one["rate_per_s"] == pytest.approx(other["rate_per_s"], rel=0.05)
        assert one["requests"] > 320 and one["clock_s"] > 0.0 and not one["is_growing"]
        low, high = one["good_ratio_interval"]
        assert low <= one["good_ratio"] <= high


def test_variants_have_rates_too_and_what_cannot_be_is_marked(rooftree):
    tight = ("--slo-ttft", "0.001", "--good-share", "0.5", "--compare", "autoregressive")
    rows = rooftree(*WORDS, "--draft-tokens", "3", *tight, "--json").answer["highest_rates"]
    assert [row["name"] for row in rows] == ["as asked", "autoregressive"]
    assert not any(row["feasible"] for row in rows) and "no rate keeps 50%" in rows[0]["reason"]
    free = ("--slo-tpot", "10000", "--good-share", "0.5")
    (row,) = rooftree(*WORDS, "--draft-tokens", "3", *free, "--json").answer["highest_rates"]
    lasting = float(
        row["rate_per_s"]
    )  # limits that any rate keeps leave the one from which on a backlog grows
    at = rooftree(
        *WORDS, "--draft-tokens", "3", "--rate", str(1.1 * lasting), "--count", "4000", "--json"
    ).answer
    assert row["feasible"] and row["good_ratio"] == 1.0
    assert at["metrics"]["requests_per_s"] < 1.06 * lasting


def test_without_limits_the_rate_is_the_one_whose_backlog_does_not_grow(rooftree):
    done = rooftree(*WORDS, "--draft-tokens", "0,3", "--rates", "1000", "--json").answer
    assert done["limits"] == ""
    for row, overloaded in zip(done["highest_rates"], done["load"], strict=True):
        assert not row["is_growing"] and row["good_ratio"] == 1.0
        assert overloaded["metrics"]["is_growing"]
        assert row["rate_per_s"] == pytest.approx(overloaded["metrics"]["requests_per_s"], rel=0.1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--draft-tokens", "0,3", *LIMITS, "--good-share", "1.5"), "must lie in 0..1"),
        (
            ("--draft-tokens", "0,3", *LIMITS, "--compare", "chunked"),
            "--compare: goes without several",
        ),
        (("--draft-tokens", "x"), "--draft-tokens"),
    ],
)
def test_misuse_is_named(rooftree, words, message):
    done = rooftree(*WORDS, *words)
    assert done.code == 2 and message in done.err


def test_a_notebook_has_a_row_a_setting():
    from rooftree import simulate as asked

    answer = asked(
        model="llama-3.1-8b",
        drafter="eagle-3:0.8,0.6,0.4",
        draft_tokens=[0, 3],
        count=60,
        rate=4,
        prompt_tokens=500,
        output_tokens=20,
        slo_ttft=100,
    )
    assert [row["name"] for row in answer.rows()] == ["off", "chain:3"]
