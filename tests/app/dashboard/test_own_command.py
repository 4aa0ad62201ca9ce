"""Headline and numbers of every page are those of the command that it hands out, whatever its link
says."""

import contextlib
import io
import json
import shlex

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from app.answers.simulations import highest_rates
from app.cli.main import main
from app.dashboard.answer import PageAnswer
from app.dashboard.answers.chains import asked_chains
from app.dashboard.answers.hardware import asked_hardware
from app.dashboard.answers.run.page import asked_run
from app.dashboard.answers.serving import answer_serving, asked_serving
from app.dashboard.answers.unmet import MISSED
from app.dashboard.pages import answered
from app.dashboard.state import CHOICES, PAGES, State, from_query, sold_devices, to_query
from hardware_profiles.errors import RooftreeError
from tests.agreement.questions import CONTEXTS, USUAL_METHODS, USUAL_MODELS
from tests.app.dashboard.own_numbers import BESIDE, SHOWN
from tests.property_examples import examples
from traces.library import recordings

pytestmark = pytest.mark.heavy
RANKED = "smollm2-135m--early-exit--greedy"
INFEASIBLE = 3
RATES = ("", "0.3", "0.7,0.6,0.45", "1", "0.55,0.5")
RIVALS = ("", "", "n-gram:0.4", "suffix-decoding:length=2.4@3;eagle-3:0.6")
ASKED = {
    "run": asked_run,
    "map": asked_chains,
    "hardware": asked_hardware,
    "serving": asked_serving,
}
"""What pages ask whose refusal is that of their command."""


def or_usual(*values):
    """A field's usual value mostly, which leaves more questions with an answer."""
    usual, *others = values
    return st.one_of(st.just(usual), st.sampled_from(others))


PLACES = st.fixed_dictionaries(
    {
        "model": st.sampled_from([*USUAL_MODELS, "llama-3.3-70b"]),
        "device": st.sampled_from(sold_devices()),
        "engine": st.sampled_from(CHOICES["engine"]),
        "dtype": or_usual("", "fp8", "int4", "q4_k_m", "fp32"),
        "kv_dtype": or_usual("", "fp8", "int8"),
        "tp": st.sampled_from([1, 2, 4, 8]),
        "batch": st.integers(1, 64) | st.integers(1, 512),
        "context": st.sampled_from(CONTEXTS) | st.integers(1, 8192),
        "draft_tokens": st.integers(1, 12),
        "bandwidth_gb_per_s": or_usual(0.0, 800.0, 6700.0),
        "memory_gb": or_usual(0.0, 160.0, 320.0),
        "bf16_tflop_per_s": or_usual(0.0, 300.0),
        "price_usd_per_hour": or_usual(0.0, 2.0),
        "slo_tpot": or_usual(0.0, 5.0, 15.0),
        "slo_ttft": or_usual(0.0, 200.0),
        "seed": or_usual(0, 3),
    }
)
STATED = {"method": st.sampled_from(USUAL_METHODS), "acceptance": st.sampled_from(RATES)}
OWN = {"draft_name": "ours", "draft_bytes": "350MB"}
DESCRIBED = (
    OWN | {"draft_passes": 4, "known_by": "rates", "acceptance": "0.8,0.6,0.45"},
    OWN | {"method": "eagle-3", "known_by": "rate", "acceptance": "0.6"},
    OWN | {"known_by": "recording", "trace": RANKED},
)
DRAFTERS = st.one_of(
    st.sampled_from(DESCRIBED),
    st.fixed_dictionaries({"rivals": st.sampled_from(RIVALS)}),
    st.fixed_dictionaries({"method": st.sampled_from(["eagle-3", "n-gram", "mtp"])}),
    st.fixed_dictionaries(STATED | {"known_by": st.sampled_from(["rate", "rates"])}),
    st.fixed_dictionaries(
        {"known_by": st.just("recording"), "trace": st.sampled_from(sorted(recordings()))}
    ),
)
QUESTIONS = st.builds(lambda place, drafter: place | drafter, PLACES, DRAFTERS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where `optimize` and `tree` write."""
    return str(tmp_path_factory.mktemp("answers"))


def of_link(page, values):
    """The state that a link with these values opens."""
    state, wrong = from_query(to_query(State(page=page, **values)))
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


def shown(page: str, state: State) -> PageAnswer | None:
    """A page's answer; None where it refuses the question, as its command does then."""
    try:
        return answered(state)
    except RooftreeError:
        if page in ASKED:
            with contextlib.suppress(RooftreeError):
                code, _ = told(ASKED[page](state).line)
                assert code, "the command answers what the page refuses"
        return None


def agrees(kind, answer, body, state):
    """Whether a page says what its command answers, label by label."""
    numbers, headline = (each(body, state) for each in SHOWN[kind])
    own = {label: value for label, value in answer.numbers if label not in BESIDE.get(kind, ())}
    assert own == numbers, answer.command
    assert all(part in answer.headline for part in headline), (headline, answer.headline)


@pytest.mark.parametrize("page", ["run", "map", "hardware", "pareto"])
@settings(max_examples=examples(12))
@given(values=QUESTIONS)
def test_a_point_is_what_its_command_answers(page, folder, values):
    state = of_link(page, values)
    answer = shown(page, state)
    assume(answer is not None)
    code, body = told(answer.command, *(["--out", folder] if page in ("run", "map") else []))
    if code == INFEASIBLE:
        assert not body["choices"]
        assert any(words in answer.headline for words in MISSED.values())
        return
    assert not code
    agrees(page, answer, body, state)
    sure = body.get("how_sure")
    sentence = (sure[0] if isinstance(sure, list) else sure)["sentence"]
    assert answer.sure is None or answer.sure.sentence == sentence


@settings(max_examples=examples(6))
@given(values=PLACES, nodes=st.integers(1, 48), depth=st.integers(1, 8))
def test_a_tree_is_what_tree_answers(values, nodes, depth):
    state = of_link("tree", values | {"tree_nodes": nodes, "depth": depth, "trace": RANKED})
    answer = shown("tree", state)
    assume(answer is not None)
    code, body = told(answer.command)
    assert not code
    if not body["fastest"][0].get("feasible", True):
        assert MISSED["memory"] in answer.headline and not answer.cards and not answer.files
        return
    agrees("tree", answer, body, state)


@settings(max_examples=examples(12))
@given(
    recording=st.sampled_from(sorted(recordings())),
    other=st.one_of(st.just(""), st.sampled_from(sorted(recordings()))),
    length=st.integers(1, 12),
)
def test_a_recording_emits_what_replay_and_compare_answer(recording, other, length):
    values = {"trace": recording, "other_trace": other, "draft_tokens": length}
    state = of_link("trace", values)
    answer = shown("trace", state)
    assume(answer is not None and "traces inspect" not in answer.command)
    code, body = told(answer.command)
    assert not code
    agrees("pair" if "compare" in answer.command else "trace", answer, body, state)


@settings(max_examples=examples(6))
@given(
    values=PLACES,
    commit=st.sampled_from(CHOICES["commit"]),
    block=st.sampled_from([8, 16, 32]),
    cache=st.sampled_from(CHOICES["cache"]),
)
def test_a_policy_is_what_predict_answers(values, commit, block, cache):
    state = of_link("diffusion", values | {"commit": commit, "block": block, "cache": cache})
    answer = shown("diffusion", state)
    assume(answer is not None)
    code, body = told(answer.command)
    assert not code
    agrees("diffusion", answer, body, state)


@settings(max_examples=examples(2))
@given(
    values=PLACES,
    drafter=DRAFTERS,
    rate=st.sampled_from([0.5, 4.0, 300.0]),
    prompt=st.integers(1, 200),
    output=st.integers(2, 24),
    whole=st.sampled_from([0.0, 150.0]),
)
def test_a_load_gets_what_simulate_answers(values, drafter, rate, prompt, output, whole):
    load = {"rate": rate, "count": 40, "prompt_tokens": prompt, "output_tokens": output}
    load |= {"slo_e2e": whole}
    state = of_link("serving", values | drafter | load)
    with pytest.MonkeyPatch.context() as patch:
        # a coarser search for the highest rate, the same on both sides
        patch.setattr(highest_rates, "RESOLUTION", 2.0)
        patch.setattr(highest_rates, "MOST_REQUESTS", 60)
        try:
            answer = answer_serving(state, lambda *report: None)
        except RooftreeError:
            assume(False)
        code, body = told(answer.command)
    assert not code
    agrees("serving", answer, body, state)


def test_every_page_with_a_command_of_its_own_is_compared():
    assert set(SHOWN) - {"pair"} == set(PAGES) - {"validation"}
