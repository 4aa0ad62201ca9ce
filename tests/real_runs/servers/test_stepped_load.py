"""A load whose steps are recorded: what engines say of them becomes a trace, and where they do not,
the trace says less."""

import json

import numpy as np
import pytest

from hardware_profiles.errors import InputError
from real_runs.servers.address import Address
from real_runs.servers.exchange import Patience
from real_runs.servers.identify import identify
from real_runs.servers.load import ACCEPTANCE, PART, ROWS, SentLoad, run_load
from real_runs.servers.speculation import speculation_of
from real_runs.servers.stepped_load import TraceLabels
from real_runs.servers.steps import OTHER_STEPS
from simulator.loop.request import Workload
from tests.real_runs.servers.speculating_server import DRAFT_TOKENS, speculating
from traces.replay.walk import replay_chain
from traces.storage.acceptance_file import read_acceptance

TOKENS = np.array([12, 1, 30, 17, 25])
LABELS = TraceLabels(
    names=["a", "b", "c", "d", "e"], kinds=["chat"] * 5, dataset="five", method="eagle-3"
)


def load(url, out, **changes):
    requests = Workload(
        arrival_s=np.zeros(5), users=1, prompt_tokens=np.full(5, 4), output_tokens=TOKENS
    )
    options = {
        "server": identify(Address.parse(url)),
        "workload": requests,
        "prompts": [(number, 2, 3, 4) for number in range(5)],
        "out": out,
        "patience": Patience(connect_s=300.0, silence_s=300.0),
        "labels": LABELS,
    }
    return SentLoad(**(options | changes))


def recorded(url, out, **changes):
    """What a load brought, once its trace was read again."""
    result = run_load(load(url, out, **changes))
    trace = read_acceptance(out / ACCEPTANCE)
    assert trace.level == result.trace.level
    return result.steps, trace


def emitted_of(stub):
    """Tokens of all steps, in the order of the answers."""
    return [tokens for steps in stub.answered for tokens in steps.emitted]


def walked(trace):
    """Tokens of the steps that a walk over a trace takes."""
    tokens = []
    for start, end in zip(trace.offsets[:-1], trace.offsets[1:], strict=True):
        at = start + trace.first_step_position
        while at < end:
            tokens.append(int(min(trace.emitted[at], end - at)))
            at += tokens[-1]
    return tokens


@pytest.mark.parametrize("kind", ["llama.cpp", "vllm", "sglang"])
@pytest.mark.parametrize("share", [0.4, 1.0])
def test_the_trace_holds_the_steps_that_the_server_took(tmp_path, kind, share):
    if kind == "sglang" and share < 1:
        pytest.skip("SGLang drafts in every step")
    with speculating(kind, share=share, per_request="summary") as (url, stub):
        told, trace = recorded(url, tmp_path)
    assert walked(trace) == emitted_of(stub)
    assert (trace.level, trace.first_step_position, trace.requests) == (1, 1, 5)
    assert trace.output_tokens.tolist() == TOKENS.tolist()
    assert (told.requests, told.left_out, told.steps) == (5, {}, len(emitted_of(stub)))
    assert trace.request_ids == ("a", "b", "c", "d", "e") and set(trace.prompt_kinds) == {"chat"}
    proposals = sum(steps.proposals for steps in stub.answered)
    replay = replay_chain(trace, DRAFT_TOKENS)
    assert int(replay.steps.sum()) == told.steps
    assert replay.proposal_ratio == pytest.approx(proposals / told.steps)
    about = trace.provenance
    assert (about.method, about.model, about.extra["engine"]) == ("eagle-3", "stub", kind)
    assert told.checked_by in about.notes and "own counts of every request" in told.checked_by
    if kind != "sglang":
        assert "add up to the server's counters" in told.checked_by
    if kind == "llama.cpp":
        drafted = [tokens for steps in stub.answered for tokens in steps.drafted]
        starts = np.concatenate(
            [
                start + np.cumsum([1, *steps.emitted[:-1]])
                for start, steps in zip(trace.offsets, stub.answered, strict=False)
                if steps.emitted
            ]
        )
        assert trace.drafted[starts].tolist() == drafted


def test_lists_of_steps_stand_although_events_hold_several(tmp_path):
    with speculating("vllm", per_request="detailed", gathers_steps=2) as (url, stub):
        told, trace = recorded(url, tmp_path)
    assert walked(trace) == emitted_of(stub) and told.left_out == {}
    assert trace.drafted is not None


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_gathered_steps_leave_the_requests_own_counts(tmp_path, kind):
    with speculating(kind, per_request="summary", gathers_steps=2) as (url, stub):
        told, trace = recorded(url, tmp_path)
    assert told.left_out.get(OTHER_STEPS, 0) >= 3
    if trace.level == 0:
        steps = sum(steps.proposals for steps in stub.answered)
        assert (trace.summary.drafts, told.requests) == (steps, 0)
        assert len(trace.summary.acceptance_by_depth) == DRAFT_TOKENS
    assert sum(told.left_out.values()) + told.requests in (4, 5)


def test_the_servers_counters_bear_out_events_alone(tmp_path):
    with speculating("vllm", share=0.4) as (url, stub):
        told, trace = recorded(url, tmp_path)
    assert walked(trace) == emitted_of(stub)
    assert told.checked_by == "the server's counters of all requests together"
    drafts = sum(steps.proposals for steps in stub.answered)
    assert trace.match_rate == pytest.approx(drafts / told.steps)


@pytest.mark.parametrize("options", [{"gathers_steps": 2}, {"others": 500}])
def test_counters_that_contradict_the_events_are_what_is_left(tmp_path, options):
    with speculating("vllm", **options) as (url, stub):
        told, trace = recorded(url, tmp_path)
    drafts = sum(steps.proposals for steps in stub.answered)
    assert (trace.level, told.requests) == (0, 0)
    assert trace.summary.drafts == drafts + options.get("others", 0)
    assert "hold several steps" in told.why_no_steps and told.why_no_steps in trace.provenance.notes


def test_events_without_counts_of_tokens_leave_the_counters(tmp_path):
    with speculating("vllm", counts_tokens=False) as (url, _):
        told, trace = recorded(url, tmp_path)
    assert (trace.level, told.left_out) == (0, {"events do not say how many tokens they hold": 5})
    with (
        speculating("vllm", counts_tokens=False, has_counters=False) as (url, _),
        pytest.raises(InputError, match="no trace can be made: events do not say how many"),
    ):
        run_load(load(url, tmp_path / "b"))
    assert (tmp_path / "b" / PART).exists()  # what was answered is kept


def test_steps_that_nothing_bears_out_are_said_to_be_unchecked(tmp_path):
    with speculating("vllm", has_counters=False, scrapes=()) as (url, stub):
        told, trace = recorded(url, tmp_path)
    assert walked(trace) == emitted_of(stub)
    assert told.checked_by.startswith("nothing") and told.checked_by in trace.provenance.notes


def test_answers_whose_characters_hide_steps_are_left_out(tmp_path):
    with speculating("llama.cpp", holds=7) as (url, stub):
        told, trace = recorded(url, tmp_path)
    [(reason, count)] = told.left_out.items()
    assert "inside a character" in reason and told.requests == 5 - count == trace.requests > 0
    assert f"{count} of 5 requests left out" in trace.provenance.notes
    kept = [
        steps
        for steps, name in zip(stub.answered, "abcde", strict=True)
        if name in trace.request_ids
    ]
    assert walked(trace) == [tokens for steps in kept for tokens in steps.emitted]


@pytest.mark.parametrize("kind", ["llama.cpp", "vllm", "sglang"])
def test_a_server_that_drafts_nothing_is_refused(tmp_path, kind):
    with speculating(kind, drafts=False) as (url, stub):
        server = identify(Address.parse(url))
        with pytest.raises(
            InputError, match=r"without speculative decoding.* start it with --spec"
        ):
            speculation_of(server)
        assert stub.bodies == []
        with pytest.raises(InputError, match="drafts nothing: start the server with"):
            run_load(load(url, tmp_path))


def test_what_a_server_says_of_its_drafter_is_known():
    with speculating("sglang") as (url, _):
        said = speculation_of(identify(Address.parse(url)))
    assert (said.drafter, said.method, said.is_tree) == ("EAGLE3", "eagle-3", False)
    for kind in ("vllm", "llama.cpp"):
        with speculating(kind) as (url, _):
            assert speculation_of(identify(Address.parse(url))).method == ""


@pytest.mark.parametrize("kind", ["llama.cpp", "vllm", "sglang"])
def test_a_recording_goes_on_after_what_was_answered(tmp_path, kind):
    with speculating(kind, fault="says", fails_from=3, per_request="summary") as (url, stub):
        told, trace = recorded(url, tmp_path)
        assert (trace.requests, told.requests) == (3, 3)
        assert "add up" not in told.checked_by  # the counters hold what failed, too
        stub.fault = ""
        with pytest.raises(InputError, match="resume it or delete it"):
            run_load(load(url, tmp_path))
        with pytest.raises(InputError, match="kind: the recording was begun with"):
            run_load(load(url, tmp_path, resume=True, labels=None))
        before = len(stub.bodies)
        told, trace = recorded(url, tmp_path, resume=True)
        assert len(stub.bodies) - before == 2
    assert trace.requests == 5 and walked(trace) == emitted_of(stub)
    assert not (tmp_path / PART).exists() and (tmp_path / ROWS).exists()


def test_what_is_sent_asks_events_to_say_how_far_they_are(tmp_path):
    wanted = {
        "llama.cpp": lambda body: body["timings_per_token"],
        "vllm": lambda body: body["stream_options"]["continuous_usage_stats"],
        "sglang": lambda body: body["sampling_params"]["max_new_tokens"] == 12,
    }
    for kind, asks in wanted.items():
        with speculating(kind, per_request="summary") as (url, stub):
            run_load(load(url, tmp_path / kind, options={"seed": 3}))
            assert asks(stub.bodies[0]) and stub.bodies[0]["seed"] == 3
        with speculating(kind) as (url, stub):
            run_load(load(url, tmp_path / f"{kind}-plain", labels=None))
            words = json.dumps(stub.bodies[0])
            assert "timings_per_token" not in words and "continuous" not in words
            assert "sampling_params" not in words
