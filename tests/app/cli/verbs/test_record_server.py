"""`record --server`: a running server's own drafts become a trace that other verbs take."""

import json

import pytest

from rooftree.questions import ask_verb
from tests.real_runs.servers.speculating_server import speculating
from traces.library import read_trace

FEW = ("--prompts-per-kind", "2", "--max-new-tokens", "24", "--users", "2")


@pytest.mark.parametrize("kind", ["llama.cpp", "vllm", "sglang"])
def test_the_trace_is_usable_at_once(rooftree, tmp_path, kind):
    with speculating(kind, per_request="summary") as (url, stub):
        done = rooftree("record", "--server", url, "--out", tmp_path, *FEW, "--json")
    assert done.code == 0, done.err
    answer = json.loads(done.out)
    assert answer["server"]["engine"] == kind and (answer["sent"], answer["failed"]) == (12, {})
    file = tmp_path / "acceptance.parquet"
    row = answer["trace"]
    assert (row["file"], row["level"], row["requests"]) == (str(file), 1, 12)
    assert row["steps"] == sum(len(steps.emitted) for steps in stub.answered)
    assert row["tokens_per_step"] == pytest.approx(12 * 23 / row["steps"])
    trace = read_trace(file)
    assert len(set(trace.prompt_kinds)) == 6 and trace.provenance.dataset_sha256
    words = ("--model", "llama-3.1-8b", "--device", "h100-sxm", "--batch", "1,8", "--json")
    named = () if kind == "sglang" else ("--method", "eagle-3")
    chosen = rooftree("optimize", "--trace", file, *named, *words, "--out", tmp_path / "o")
    assert chosen.code == 0, chosen.err
    assert rooftree("traces", "inspect", file).code == 0


def test_a_person_reads_how_steps_were_counted_and_what_was_left_out(rooftree, tmp_path):
    with speculating("llama.cpp", holds=11) as (url, _):
        done = rooftree("record", "--server", url, "--out", tmp_path, *FEW, "--method", "n-gram")
    assert done.code == 0, done.err
    assert "running counts of drafts" in done.out and "requests left out" in done.out
    assert "--method METHOD" not in done.out and "optimize --trace" in done.out


def test_steps_that_cannot_be_told_leave_level_0_and_what_would_tell_them(rooftree, tmp_path):
    with speculating("vllm", gathers_steps=2) as (url, _):
        done = rooftree("record", "--server", url, "--out", tmp_path, *FEW)
    assert done.code == 0, done.err
    assert "level 0, counts without steps" in done.out
    assert "--per-request-spec-decode-metrics detailed" in done.out
    file = tmp_path / "acceptance.parquet"
    words = ("--model", "llama-3.1-8b", "--method", "eagle-3", "--batch", "1", "--json")
    chosen = rooftree("optimize", "--trace", file, *words, "--out", tmp_path / "o")
    assert chosen.code == 0, chosen.err


def test_prompts_go_in_the_models_own_chat_form(rooftree, tmp_path):
    for kind, key in (("vllm", "prompt"), ("sglang", "input_ids"), ("llama.cpp", "prompt")):
        with speculating(kind, per_request="summary") as (url, stub):
            done = rooftree("record", "--server", url, "--out", tmp_path / kind, *FEW, "--json")
        assert "own chat form" in json.loads(done.out)["notes"][-1]
        assert all(body[key][:2] == [1, 500] for body in stub.bodies)
        bare = {"forms_chats": False, "tokenizes": False}
        with speculating(kind, per_request="summary", **bare) as (url, stub):
            done = rooftree(
                "record", "--server", url, "--out", tmp_path / f"{kind}-plain", *FEW, "--json"
            )
        assert "as they are written" in json.loads(done.out)["notes"][-1]
        sent = stub.bodies[0].get("text", stub.bodies[0].get("prompt"))
        assert isinstance(sent, str)


def test_lengths_and_counts_are_those_of_a_load(rooftree, tmp_path):
    words = ("--prompt-tokens", "40", "--output-tokens", "9", "--count", "5", "--users", "1")
    with speculating("vllm", per_request="summary") as (url, stub):
        done = rooftree("record", "--server", url, "--out", tmp_path, *words, "--json")
    assert done.code == 0, done.err
    assert [len(body["prompt"]) for body in stub.bodies] == [40] * 5
    trace = read_trace(tmp_path / "acceptance.parquet")
    assert trace.output_tokens.tolist() == [9] * 5 and trace.provenance.dataset == ""
    again = ("--requests", tmp_path / "requests.parquet", "--out", tmp_path / "again")
    with speculating("vllm", per_request="summary") as (url, stub):
        assert rooftree("record", "--server", url, *again).code == 0
    assert [len(body["prompt"]) for body in stub.bodies] == [40] * 5
    with speculating("vllm", per_request="summary") as (url, stub):
        rooftree("record", "--server", url, "--out", tmp_path / "b", *FEW[:4], "--count", "20")
    assert len(stub.bodies) == 20
    names = read_trace(tmp_path / "b" / "acceptance.parquet").request_ids
    assert len(set(names)) == 20 and sum(name.endswith("#2") for name in names) == 8


def test_python_asks_the_same(tmp_path):
    with speculating("vllm", per_request="detailed") as (url, _):
        options = {"server": url, "out": tmp_path, "prompts_per_kind": 1, "max_new_tokens": 8}
        answer = ask_verb("record", (), options)
    assert answer.trace.level == 1 and answer.counts.drafts > 0


def test_a_server_without_drafts_is_named(rooftree, tmp_path):
    for kind in ("llama.cpp", "vllm", "sglang"):
        with speculating(kind, drafts=False) as (url, _):
            done = rooftree("record", "--server", url, "--out", tmp_path, *FEW)
        assert done.code == 2 and "runs without speculative decoding" in done.err
    with speculating("openai", drafts=False, has_counters=False, scrapes=()) as (url, _):
        done = rooftree("record", "--server", url, "--out", tmp_path, *FEW)
    assert done.code == 2 and "no trace can be made: events of this engine" in done.err


def test_failed_requests_end_with_an_error_and_are_sent_again(rooftree, tmp_path):
    with speculating("vllm", fault="says", fails_from=4, per_request="summary") as (url, stub):
        done = rooftree("record", "--server", url, "--out", tmp_path, *FEW)
        assert done.code == 2 and "8 of 12 requests failed" in done.err
        stub.fault = ""
        done = rooftree("record", "--server", url, "--out", tmp_path, *FEW, "--resume", "--json")
    assert done.code == 0 and json.loads(done.out)["trace"]["requests"] == 12
