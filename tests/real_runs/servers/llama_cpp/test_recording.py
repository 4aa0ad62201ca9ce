"""Recordings through a server: what it answered, what drafters would have made of it, and answers
that are none."""

import http.server
import json
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.prompt_set import read_prompts
from real_runs.servers.address import Address
from real_runs.servers.client import Completion
from real_runs.servers.identify import identify
from real_runs.servers.llama_cpp.answers import (
    Answers,
    ServerAnswer,
    record_answers,
    whole_completion,
)
from real_runs.servers.llama_cpp.launch import launched
from real_runs.servers.llama_cpp.ngram_simple import ngram_simple_lengths
from real_runs.servers.llama_cpp.recording import draft_trace, lookup_trace, record_server
from real_runs.servers.session import run_requests
from tests.real_runs.servers.llama_cpp.asked import greedy
from traces.library import read_trace
from traces.replay.walk import replay_chain

PROMPTS = read_prompts(None).first_of_each_kind(1)
FEW = replace(PROMPTS, prompts=PROMPTS.prompts[:2])
SETUP = {
    "recorder": "r",
    "name": "m",
    "model_file": "m.gguf",
    "context": 4096,
    "dtype": "Q8_0",
    "build": "b",
    "dataset": "d",
    "dataset_sha256": "0",
    "max_new_tokens": 64,
    "ignore_eos": True,
}


def answered(prompt, output):
    return ServerAnswer(
        request="a",
        kind="k",
        prompt=tuple(prompt),
        output=tuple(output),
        ended="length",
        drafted=0,
        accepted=0,
    )


@given(
    prompt=st.lists(st.integers(0, 2), min_size=20, max_size=40),
    output=st.lists(st.integers(0, 2), min_size=2, max_size=30),
    size_n=st.integers(1, 4),
    further=st.integers(0, 8),
)
def test_one_recording_replays_every_draft_length_from_what_is_looked_up_on(
    prompt, output, size_n, further
):
    trace = lookup_trace(
        Answers(setup=SETUP, requests=(answered(prompt, output),)), size_n=size_n, size_m=size_n + 8
    )
    assert "too short" not in trace.provenance.notes
    own = ngram_simple_lengths(
        prompt, output, size_n=size_n, size_m=size_n + further, most_tokens=64, context=4096
    )
    position, steps = 1, 0
    while position < len(output):
        position, steps = position + int(own.emitted[position]), steps + 1
    assert int(replay_chain(trace, size_n + further).steps.sum()) == steps


@pytest.mark.model
def test_a_recording_holds_the_text_and_both_drafters(few_layers, tmp_path):
    plain = ["--model", str(few_layers), "--ctx-size", "512", "--parallel", "1"]
    with (
        launched(plain, folder=tmp_path / "a") as target,
        launched(plain, folder=tmp_path / "b") as draft,
    ):
        told = []
        files = record_server(
            Address.parse(target.url),
            FEW,
            out=tmp_path,
            lookups=[(2, 8)],
            draft=Address.parse(draft.url),
            max_new_tokens=12,
            tell=lambda *done: told.append(done),
        )
        assert told == [(done, 4) for done in range(1, 5)]
        lookup, own = (read_trace(file) for file in files)
        assert (lookup.level, own.level, lookup.requests) == (1, 2, 2)
        assert lookup.provenance.dtype == "Q4_1" and lookup.provenance.dataset == FEW.title
        # the target as its own draft model: what differs is how sums are rounded
        assert np.mean(own.rank == 0) > 0.95
        with pytest.raises(InputError, match="ignore_eos: the recording was begun with False"):
            record_answers(
                Address.parse(target.url), FEW, out=tmp_path, max_new_tokens=12, ignore_eos=True
            )
        kept = record_answers(Address.parse(target.url), FEW, out=tmp_path, max_new_tokens=12)
        assert greedy(target, kept.requests[0].prompt, 12)["tokens"] == list(
            kept.requests[0].output
        )
        with pytest.raises(InputError, match="start the server with --ctx-size"):
            record_answers(
                Address.parse(target.url), FEW, out=tmp_path / "long", max_new_tokens=500
            )


@pytest.mark.model
def test_the_engine_keeps_what_a_draft_models_own_server_says_it_hits(shipped, cut, tmp_path):
    """Drafts of 3 tokens are counted by the server that verifies them, hits by one that runs the
    draft model alone."""
    draws = [
        "--spec-type",
        "draft-simple",
        "--spec-draft-model",
        str(cut),
        "--spec-draft-n-max",
        "3",
    ]
    plain = ["--ctx-size", "512", "--parallel", "1"]
    with launched(["--model", str(shipped), *plain, *draws], folder=tmp_path / "both") as both:
        answers = record_answers(
            Address.parse(both.url), FEW, out=tmp_path, max_new_tokens=24, ignore_eos=True
        )
    with launched(["--model", str(cut), *plain], folder=tmp_path / "draft") as alone:
        trace = draft_trace(answers, Address.parse(alone.url))
    steps = int(replay_chain(trace, 3).steps.sum())
    counted = sum(answer.accepted for answer in answers.requests)
    # every step but the prompt's emits one token beside those that are kept; a near tie may round
    # the other way
    assert counted > 10 and abs(2 * 23 - counted - steps) <= 2


@pytest.mark.model
def test_an_answer_in_characters_of_several_tokens_is_whole(few_layers, tmp_path):
    grammar = {"grammar": 'root ::= "日本語のテキスト"'}
    with launched(
        ["--model", str(few_layers), "--ctx-size", "256", "--parallel", "1"], folder=tmp_path
    ) as running:
        address = Address.parse(running.url)
        output, said = whole_completion(address, [504, 2365], max_tokens=40, options=grammar)
        asked = Completion(prompt=(504, 2365), max_tokens=40, ignore_eos=False, options=grammar)
        [streamed] = run_requests(identify(address), [asked], users=1)
    assert said["content"] == streamed.text == "日本語のテキスト"
    assert len(output) == said["tokens_predicted"] == streamed.output_tokens > 8
    # the stream leaves some out, and says none rather than some
    assert streamed.token_ids in (None, output)


@pytest.fixture
def stub():
    """A server that answers what a table says, by path; a text is sent as it is."""

    said = {
        "/v1/models": {"data": [{"id": "m", "owned_by": "llamacpp"}]},
        "/props": {"model_path": "/a/b.gguf", "default_generation_settings": {"n_ctx": 4096}},
        "/apply-template": {"prompt": "p"},
        "/tokenize": {"tokens": [1, 2]},
        "/completion": {"tokens": [3], "stop_type": "eos"},
    }

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self):
            found = said.get(self.path)
            body = (found if isinstance(found, str) else json.dumps(found)).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = answer  # noqa: N815  (names of the base class)

        def log_message(self, *words):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield said, Address.parse(f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


def test_a_recording_goes_on_after_what_was_answered(stub, tmp_path):
    said, address = stub
    whole = said["/completion"]

    def die(done, total):
        if done == 4:
            said["/completion"] = None

    with pytest.raises(InputError, match="/completion: HTTP 404"):
        record_answers(address, PROMPTS, out=tmp_path, tell=die)
    said["/completion"] = whole | {"tokens": [5]}
    found = record_answers(address, PROMPTS, out=tmp_path)
    assert [answer.output for answer in found.requests] == [(3,)] * 4 + [(5,)] * 2
    assert found.setup["model_file"] == "b.gguf"
    said["/completion"] = None
    assert record_answers(address, PROMPTS, out=tmp_path) == found


@pytest.mark.parametrize(
    ("path", "answer", "message"),
    [
        (
            "/v1/models",
            {"data": [{"id": "m", "owned_by": "vllm"}]},
            "must be a server of llama.cpp, got 'vllm'",
        ),
        ("/props", None, "/props: HTTP 404"),
        ("/apply-template", "<html>", "must answer a JSON object, got '<html>'"),
        ("/tokenize", {"tokens": [1, True]}, "must answer a list of token ids"),
        ("/completion", {"tokens": [-1]}, "must answer a list of token ids"),
        ("/completion", {"tokens": []}, "must answer with 1 to 160 tokens, got 0"),
        ("/completion", {"tokens": [1] * 161}, "must answer with 1 to 160 tokens, got 161"),
    ],
)
def test_what_is_no_answer_is_refused(stub, tmp_path, path, answer, message):
    said, address = stub
    said[path] = answer
    with pytest.raises(InputError, match=message):
        record_answers(address, PROMPTS, out=tmp_path)


def test_an_answer_longer_than_any_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"max_new_tokens: must lie in 1\.\.32000"):
        record_answers(Address.parse("http://127.0.0.1:9"), PROMPTS, out=tmp_path, max_new_tokens=0)
