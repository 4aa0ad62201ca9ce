"""One completion: counts are the server's, times are when tokens came, and a fault says what it
was."""

import asyncio
import contextlib
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError, UnknownNameError
from real_runs.servers.address import Address
from real_runs.servers.client import Completion, complete
from real_runs.servers.engines import KINDS
from real_runs.servers.exchange import Patience, Reply, UnreachableError, exchange
from real_runs.servers.identify import Server, identify
from real_runs.servers.stepped_load import step_columns
from real_runs.servers.steps import UnclearStepsError, request_steps
from tests.property_examples import examples
from tests.real_runs.servers.stub_server import serving

PATIENT, SHORT = Patience(silence_s=300.0), Patience(silence_s=3.0)


def ask(url, *, tokens=6, patience=PATIENT, **options):
    server = identify(Address.parse(url))
    request = Completion(prompt=(1, 2, 3, 4), max_tokens=tokens, options=options)
    return asyncio.run(complete(server, request, patience=patience))


def ask_of(texts, kind="vllm"):
    """The answer that a server's events make, without a server."""
    body = "".join(f"data: {text}\n\n" for text in texts).encode()
    reply = Reply(sent_s=0.0, status=200, kind="text/event-stream", pieces=[(1.0, body)])
    server = Server(address=Address.parse("http://a"), kind=kind, model="m")

    async def replied(*_, **__):
        return reply

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("real_runs.servers.client.exchange", replied)
        return asyncio.run(complete(server, Completion(prompt="x", max_tokens=3)))


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_is_whole_and_counted_by_the_server(kind):
    with serving(kind, interval_s=0.002) as (url, stub):
        server, answer = identify(Address.parse(url)), ask(url, seed=7)
    assert (server.kind, server.model) == (kind, "stub")
    assert (server.slots, server.context) == (2 if kind == "llama.cpp" else None, 4096)
    assert (answer.output_tokens, answer.prompt_tokens, answer.error) == (6, 4, None)
    assert (answer.finish_reason, answer.cached_tokens) == (
        "length",
        0 if kind == "llama.cpp" else 1,
    )
    written = [float(word) for word in answer.text.split()]
    assert len(written) == len(answer.token_times_s) == 6
    assert all(at <= seen for at, seen in zip(written, answer.token_times_s, strict=True))
    assert answer.due_s == answer.sent_s <= answer.first_token_s == answer.token_times_s[0]
    body = stub.bodies[0]
    assert body["seed"] == 7 and body["ignore_eos"] and body["prompt"] == [1, 2, 3, 4]
    assert (
        (answer.token_ids == tuple(range(6)))
        == (kind == "llama.cpp")
        == (answer.timings is not None)
    )


def test_an_event_with_several_tokens_counts_them_where_it_says_which_they_are():
    with serving("llama.cpp", at_once=4) as (url, _):
        assert len(ask(url).token_times_s) == 6
    with serving("openai", at_once=4) as (url, _):
        answer = ask(url)
    assert (len(answer.token_times_s), answer.output_tokens) == (2, 6)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("cuts", "the connection ended in the middle of the answer"),
        ("dies", "the connection ended in the middle of the answer"),
        ("ends", "the stream ended before the answer did"),
        ("says", "the server says: out of memory"),
        ("silent", "the server was silent for 3 s"),
        ("html", "answered something else than JSON: '<html>gateway</html>'"),
        ("refuses", "HTTP 503: no room"),
        ("redirects", "HTTP 302"),
        ("huge", "a line of the answer exceeds 1048576 bytes"),
        ("garbage", "does not speak HTTP"),
        ("no-chunks", "does not speak HTTP"),
    ],
)
def test_a_fault_is_said_and_what_arrived_is_kept(fault, said):
    with serving("vllm", fault=fault) as (url, _):
        answer = ask(url, patience=SHORT if fault == "silent" else PATIENT)
    assert said in answer.error
    assert len(answer.token_times_s) == (
        3 if fault in ("cuts", "dies", "ends", "says", "silent") else 0
    )


def test_an_answer_without_end_is_cut_off():
    with serving(fault="huge") as (url, _):
        reply = asyncio.run(
            exchange(Address.parse(url), "/completion", {"n_predict": 1}, most_bytes=100_000)
        )
    assert reply.error == "the answer is larger than is read" and len(reply.body) <= 100_000


def test_nothing_but_the_address_is_spoken_to(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving() as (url, stub):
        assert ask(url).error is None
    assert all(f"Host: {url.removeprefix('http://')}" in head for head in stub.heads)
    assert all("Authorization" not in head and "Cookie" not in head for head in stub.heads)


def test_a_key_is_sent_to_the_server_alone():
    with serving() as (url, stub):
        identify(replace(Address.parse(url), api_key="k1"))
    assert all("Authorization: Bearer k1\r\n" in head for head in stub.heads)


def test_a_server_that_speaks_no_tls_is_not_waited_for():
    secured = Patience(connect_s=0.2)
    with (
        serving() as (url, _),
        pytest.raises(UnreachableError, match=r"does not take a connection within 0.2 s"),
    ):
        identify(Address.parse(url.replace("http:", "https:")), patience=secured)


def test_what_a_server_says_is_shown_and_not_obeyed():
    """Its words are printed on a terminal, where control characters are orders."""
    answer = ask_of([json.dumps({"error": {"message": "bad \x1b[2J\n\x07 request"}})])
    assert answer.error == "the server says: bad  [2J   request" and answer.error.isprintable()
    assert ask_of(["\x1b[31mred"]).error.isprintable()
    with serving(model="m\x1b[2J") as (url, _), pytest.raises(InputError, match="lists no models"):
        identify(Address.parse(url))


def test_a_notebook_whose_event_loop_runs_can_ask_too():
    async def cell():
        return identify(Address.parse(url))

    with serving() as (url, _):
        assert asyncio.run(cell()).model == "stub"


def test_tokens_that_the_server_does_not_count_are_not_guessed():
    events = ['{"choices": [{"text": "a b c", "finish_reason": "length"}]}', "[DONE]"]
    answer = ask_of(events)
    assert (
        answer.error == "the server does not say how many tokens it generated"
        and answer.text == "a b c"
    )
    usage = '{"choices": [], "usage": {"completion_tokens": 3}}'
    assert ask_of([*events[:1], usage]).output_tokens == 3
    assert ask_of(['{"choices": [{"text": "a"}]}', usage, "[DONE]"]).error is None


@given(st.lists(st.text(max_size=60), max_size=6))
@settings(max_examples=examples(50), deadline=None)
def test_no_event_of_a_server_does_harm(texts):
    answer = ask_of(texts)
    assert answer.error is not None and answer.output_tokens == 0


KEYS = st.sampled_from(
    [
        *("choices", "content", "tokens", "stop", "usage", "timings", "text", "completion_tokens"),
        *("meta_info", "finish_reason", "metrics", "speculative_decoding", "num_spec_steps"),
        *("acceptance_histogram", "spec_verify_ct", "per_step_accepted"),
        *("predicted_n", "draft_n", "draft_n_accepted"),
    ]
)
JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=4), st.sampled_from(["llama.cpp", "vllm", "sglang"]))
@settings(max_examples=examples(50), deadline=None)
def test_no_value_of_a_server_does_harm(values, kind):
    answer = ask_of([json.dumps(value) for value in values], kind)
    assert answer.output_tokens >= 0 and all(type(token) is int for token in answer.token_ids or ())
    assert json.loads(json.dumps(step_columns(answer)))["speculation"] == answer.speculation
    with contextlib.suppress(UnclearStepsError):
        steps = request_steps(kind, answer.marks, answer.speculation, answer.output_tokens)
        assert 1 + sum(steps.emitted) == answer.output_tokens


def test_a_server_that_is_not_there_is_named():
    with serving() as (url, _):
        pass
    with pytest.raises(UnreachableError, match=rf"{url}: cannot be reached \(Connection refused\)"):
        identify(Address.parse(url))
    with pytest.raises(UnreachableError, match="cannot be reached"):
        identify(Address.parse("http://no-such-host.invalid"))


def test_a_model_that_is_not_served_is_refused_with_those_that_are():
    with (
        serving() as (url, _),
        pytest.raises(UnknownNameError, match="unknown model 'stab'; nearest: stub"),
    ):
        identify(Address.parse(url), model="stab")


def test_what_is_no_server_of_completions_is_refused():
    with serving() as (url, stub):
        stub.model = None
        with pytest.raises(InputError, match="lists no models"):
            identify(Address.parse(url))
