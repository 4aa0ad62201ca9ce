"""`capacity --search full`: never dearer than what is named, the same object, and what is
refused."""

import numpy as np
import pytest

from traces.kinds.acceptance import RequestTrace
from traces.storage.acceptance_file import write_requests

LOAD = (
    "--model",
    "llama-3.1-8b",
    "--rate",
    "40",
    "--prompt",
    "600",
    "--output",
    "150",
    "--slo-tpot",
    "25",
    "--json",
)


def test_a_full_search_is_never_dearer_than_a_named_plan(rooftree):
    named = rooftree("capacity", *LOAD, "--device", "h100-sxm,l4", "--tp", "1,2").answer
    full = rooftree("capacity", *LOAD, "--device", "h100-sxm,l4", "--search", "full").answer
    assert full["best"]["by"] == named["best"]["by"] == "usd_per_hour"
    cheapest = [
        min(row["usd_per_hour"] for row in each["plans"] if row["feasible"])
        for each in (full, named)
    ]
    assert cheapest[0] <= cheapest[1]
    for row in full["plans"]:
        assert set(row) >= {"model", "device", "engine", "tp", "method", "feasible", "reason"}
        if row["feasible"]:
            assert (
                row["tpot_s"] <= 0.025
                and row["batch"] <= row["batch_cap"]
                and row["token_budget"] >= 1024
            )
    assert full["best"]["layout"].startswith("tp") and full["best"]["token_budget"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--search", "all"), "--search: must be named or full"),
        (("--search", "full", "--tp", "2"), "--tp: is searched"),
    ],
)
def test_refusals_name_the_option(rooftree, words, says):
    done = rooftree("capacity", *LOAD, *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and says in done.err


def test_a_draft_model_that_is_named_drafts_in_a_full_search(rooftree):
    words = (
        "--method",
        "speculative-decoding",
        "--draft",
        "llama-3.2-1b",
        "--acceptance",
        "0.8",
        "--draft-tokens",
        "4",
    )
    plans = rooftree("capacity", *LOAD, *words, "--search", "full", "--devices", "8").answer[
        "plans"
    ]
    drafted = [row for row in plans if row["method"] == "speculative-decoding"]
    assert drafted and all(
        row["memory"]["drafter_bytes"] * row["tp"] > 2e9 for row in drafted if row["feasible"]
    )


def test_recorded_requests_are_served_by_the_design_that_optimize_finds(rooftree, tmp_path):
    """The same search answers both: at the same rate and limits they name the same design and
    number of devices."""
    drawn = np.random.default_rng(3)
    recorded = RequestTrace(
        arrival_s=np.cumsum(drawn.exponential(0.1, 200)),
        prompt_tokens=drawn.integers(50, 1500, 200),
        output_tokens=drawn.integers(40, 300, 200),
    )
    write_requests(recorded, tmp_path / "requests.parquet")
    asked = (
        "--requests",
        tmp_path / "requests.parquet",
        "--model",
        "llama-3.1-8b",
        "--device",
        "h100-sxm,l4",
        "--devices",
        "4",
        "--drafter",
        "eagle-3:0.78,0.61,0.48",
        "--draft-tokens",
        "2,3",
        "--slo-tpot",
        "30",
        "--slo-ttft",
        "800",
        "--search",
        "full",
        "--json",
    )
    plan = rooftree("capacity", *asked).answer
    (winner,) = rooftree(
        "optimize", *asked, "--maximise", "tokens-per-dollar", "--out", tmp_path / "o"
    ).answer["choices"]
    assert winner["meets_limits"] and winner["simulated"] is not None
    names = ("device", "layout", "method", "dtype", "kv_dtype", "token_budget")
    assert [plan["best"][name] for name in names] == [winner[name] for name in names]
    (row,) = [
        row for row in plan["plans"] if all(row[name] == plan["best"][name] for name in names)
    ]
    assert (row["draft_tokens"], row["devices"]) == (winner["draft_tokens"], winner["devices"])
    assert row["usd_per_hour"] == pytest.approx(winner["usd_per_hour"])


@pytest.mark.parametrize(
    "search", [("--tp", "1,2"), ("--search", "full", "--method", "plain-decoding")]
)
def test_one_device_is_enough_where_it_answers_in_time(rooftree, search):
    """Limits of a first token are tested under the load of a replica, not at the most that it could
    be sent."""
    asked = (
        "capacity",
        "--model",
        "llama-3.1-8b",
        "--prompt",
        "1024",
        "--output",
        "256",
        "--slo-ttft",
        "45",
        "--json",
    )
    for rate in ("0.5", "5"):
        answer = rooftree(*asked, "--rate", rate, *search).answer
        assert answer["best"]["devices"] == 1
        (best,) = [row for row in answer["plans"] if row["feasible"] and row["devices"] == 1][:1]
        assert best["ttft_s"] <= 0.045
        assert answer["inputs"]["limits"] == "mean TTFT <= 45 ms"


def test_placements_that_cannot_run_are_rows_that_name_their_layout(rooftree):
    """In the object by layout and number of tensor devices, on the screen by layout and format."""
    words = (
        "capacity",
        "--model",
        "llama-3.3-70b",
        "--rate",
        "1",
        "--prompt",
        "600",
        "--output",
        "150",
        "--device",
        "h100-sxm,l4",
        "--devices",
        "4",
        "--method",
        "plain-decoding",
        "--search",
        "full",
    )
    plans = rooftree(*words, "--json").answer["plans"]
    marked = [row for row in plans if not row["feasible"]]
    assert {(row["device"], row["layout"], row["tp"]) for row in marked} == {
        ("h100-sxm", "tp1", 1),
        ("l4", "tp1", 1),
        ("l4", "tp2", 2),
        ("l4", "tp4", 4),
    }
    shown = " ".join(rooftree(*words).out.split())
    for row in marked:
        assert f"{row['device']}, {row['layout']}: {row['reason']}" in shown
