"""The numbers of a page are those of the command that it hands out, whatever its link says."""

import contextlib
import io
import json
import re
import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.answers.simulations import highest_rates
from app.cli.main import main
from app.dashboard.answers.serving import answer_serving
from app.dashboard.pages import answered
from app.dashboard.state import State, from_query, to_query, with_values
from app.render.charts.charts import digits
from hardware_profiles.errors import InfeasibleError

pytestmark = pytest.mark.heavy
RANKED = "smollm2-135m--early-exit--greedy"
DRAFTERS = (
    {},
    {"method": "eagle-3"},
    {"method": "eagle-3", "known_by": "rate", "acceptance": "0.6"},
    {"method": "n-gram", "known_by": "rates", "acceptance": "0.5,0.3,0.2"},
    {"known_by": "recording", "trace": RANKED},
)
PLACES = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["llama-3.1-8b", "llama-3.3-70b", "qwen3-30b-a3b"]),
        "device": st.sampled_from(["h100-sxm", "l4", "b200-sxm"]),
        "engine": st.sampled_from(["vllm", "sglang"]),
        "tp": st.sampled_from([1, 4]),
        "batch": st.sampled_from([1, 12, 200]),
        "context": st.sampled_from([256, 3000]),
        "bandwidth_ratio": st.sampled_from([1.0, 0.25, 2.0]),
        "slo_tpot": st.sampled_from([0.0, 15.0]),
    }
)
QUESTIONS = st.builds(lambda where, drafter: where | drafter, PLACES, st.sampled_from(DRAFTERS))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("answers"))


def of_link(page, values):
    """The state that a link with these values opens."""
    state, wrong = from_query(to_query(with_values(State(page=page), values)))
    assert not wrong
    return state


def told(line, *more):
    """The JSON answer of a command line, and its exit code."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()),
    ):
        code = main([*shlex.split(line)[1:], "--json", *more])
    return code, json.loads(out.getvalue() or "{}")


def numbers_of(answer):
    """The first number of every value of a page's headline figures."""
    return {label: re.match(r"[\d.,]+|\S+", value)[0] for label, value in answer.numbers}


@pytest.mark.parametrize("page", ["run", "map"])
@settings(max_examples=8)
@given(values=QUESTIONS)
def test_what_to_run_is_what_optimize_says(page, folder, values):
    answer = answered(of_link(page, values))
    code, body = told(answer.command, "--out", folder)
    if code:
        assert not body["choices"] and "Batch " in answer.headline
        return
    for row in body["within_limits"]:
        assert f"up to {row['users']:,} user" in answer.headline or not row["users"]
    first, numbers = body["choices"][0], numbers_of(answer)
    assert answer.sure is not None and body["how_sure"]["sentence"] == answer.sure.sentence
    assert digits(first["speedup"]) in answer.headline or not first["draft_tokens"]
    if page == "run":
        assert numbers["Whole batch"] == digits(first["tokens_per_s"])
        assert numbers["Speculation"].startswith("off") == (first["topology"] == "off")
    else:
        assert numbers["Speedup"].rstrip("×") == digits(first["speedup"])


@pytest.mark.parametrize(("page", "label"), [("hardware", "Whole batch"), ("pareto", "Per user")])
@settings(max_examples=8)
@given(values=QUESTIONS)
def test_the_speed_is_what_predict_says(page, label, values):
    try:
        answer = answered(of_link(page, values))
    except InfeasibleError:
        return
    if not answer.numbers:  # nothing holds, and the command is that of another point
        return
    code, body = told(answer.command)
    (row,) = body["predictions"]
    users = row["batch"] if label == "Per user" else 1
    assert code == 0
    assert numbers_of(answer)[label] == digits(row["tokens_per_s"] / users)


@settings(max_examples=5)
@given(values=PLACES, nodes=st.sampled_from([4, 16]))
def test_the_tree_is_what_tree_says(values, nodes):
    answer = answered(of_link("tree", values | {"tree_nodes": nodes, "depth": 4}))
    _, body = told(answer.command)
    (fastest,) = body["fastest"]
    if not fastest.get("feasible", True):
        assert "does not fit" in answer.headline and not answer.cards
        return
    assert numbers_of(answer)["Tokens per step"] == digits(body["trees"][0]["tokens_per_step"])
    assert numbers_of(answer)["Whole batch"] == digits(fastest["budget_trees"][0]["tokens_per_s"])


@settings(max_examples=4)
@given(
    recording=st.sampled_from([RANKED, "smollm2-135m--prompt-lookup--greedy"]),
    length=st.integers(1, 8),
)
def test_a_recording_emits_what_replay_says(recording, length):
    answer = answered(of_link("trace", {"trace": recording, "draft_tokens": length}))
    _, body = told(answer.command)
    assert numbers_of(answer)["Tokens per step"] == digits(body["chains"][0]["tokens_per_step"])


@settings(max_examples=3)
@given(
    rate=st.sampled_from([2.0, 8.0, 300.0]),
    drafter=st.sampled_from(DRAFTERS[:4]),
    limit=st.sampled_from([0.0, 8.0]),
)
def test_a_load_gets_what_simulate_says(rate, drafter, limit):
    load = {"rate": rate, "count": 40, "prompt_tokens": 64, "output_tokens": 16, "slo_tpot": limit}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(highest_rates, "RESOLUTION", 1.5)
        patch.setattr(highest_rates, "MOST_REQUESTS", 500)
        answer = answer_serving(of_link("serving", load | drafter), lambda *report: None)
        _, body = told(answer.command)
    metrics, numbers = body["load"][0]["metrics"], numbers_of(answer)
    assert numbers["Output"] == digits(metrics["tokens_per_s"])
    assert numbers["Goodput"] == digits(metrics["goodput_per_s"])
    assert answer.headline.startswith("Overloaded") == metrics["is_growing"]
    sustained = body["highest_rates"][0]["rate_per_s"]
    assert numbers["Sustains"] == ("no" if sustained is None else digits(sustained))
