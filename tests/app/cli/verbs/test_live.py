"""The verbs that speak to a live server: what they print, write, refuse and return."""

import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest

import rooftree as front
from tests.real_runs.servers.stub_server import serving
from tests.traces.importers.samples import VLLM_SCRAPES
from traces.storage.acceptance_file import read_acceptance

SIZES = ("--prompt-tokens", "6", "--output-tokens", "4")


def test_a_load_answers_in_tables_and_json_and_is_simulated(rooftree, tmp_path):
    with serving(interval_s=0.001) as (url, stub):
        done = rooftree(
            "load",
            url,
            "--rate",
            "200",
            "--count",
            "5",
            *SIZES,
            "--out",
            tmp_path / "a",
            "--option",
            "cache_prompt=false",
        )
        answer = rooftree(
            "load", url, "--users", "2", "--count", "3", *SIZES, "--out", tmp_path / "b", "--json"
        ).answer
    assert (done.code, done.err) == (0, "")
    assert "TTFT" in done.out and "stub on llama.cpp" in done.out and "5 of 5 requests" in done.out
    assert stub.bodies[0]["cache_prompt"] is False and len(stub.bodies[0]["prompt"]) == 6
    assert (answer["requests"], answer["failed"], answer["metrics"]["output_tokens"]) == (3, 0, 12)
    assert answer["server"] == {"engine": "llama.cpp", "model": "stub", "slots": 2, "context": 4096}
    assert (tmp_path / "b" / "load.json").is_file()
    played = rooftree(
        "simulate", "--requests", tmp_path / "a" / "requests.parquet", "--model", "gpt2", "--json"
    ).answer
    assert played["metrics"]["finished"] == 5


def test_recorded_requests_keep_their_lengths(rooftree, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-01-01 00:00:00,9,3\n2024-01-01"
        " 00:00:00.02,7,2\n"
    )
    with serving() as (url, stub):
        answer = rooftree(
            "load", url, "--requests", log, "--out", tmp_path / "out", "--json"
        ).answer
    assert sorted(len(body["prompt"]) for body in stub.bodies) == [7, 9]
    assert answer["metrics"]["output_tokens"] == 5


def test_prompts_are_sent_as_they_are_written(rooftree, tmp_path):
    prompts = tmp_path / "prompts.toml"
    prompts.write_text(
        'title = "two"\n'
        + "".join(f'[[prompts]]\nid = "{i}"\nkind = "k"\ntext = "say {i}"\n' for i in "ab")
    )
    words = (
        "--prompts",
        prompts,
        "--output-tokens",
        "2",
        "--users",
        "1",
        "--stop-at-eos",
        "--out",
        tmp_path / "out",
    )
    with serving("vllm") as (url, stub):
        assert rooftree("load", url, *words).code == 0
    assert [body["prompt"] for body in stub.bodies] == ["say a", "say b"]
    assert all("ignore_eos" not in body and body["model"] == "stub" for body in stub.bodies)


def test_a_server_without_a_tokenizer_gets_plain_ids_and_the_answer_says_so(rooftree, tmp_path):
    with serving("openai", tokenizes=False) as (url, _):
        done = rooftree("load", url, "--users", "1", "--count", "1", *SIZES, "--out", tmp_path)
    assert "no /tokenize" in done.out


def test_failed_requests_are_an_error_after_the_answer(rooftree, tmp_path):
    with serving(fault="refuses", fails_from=1) as (url, _):
        done = rooftree("load", url, "--users", "1", "--count", "3", *SIZES, "--out", tmp_path)
    assert done.code == 2 and "1 of 3 requests" in done.out
    assert "2 of 3 requests failed (HTTP 503: no room); --resume sends them again" in done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--rate", "0"], "--rate: Input should be greater than 0"),
        (["--rate", "1", "--users", "2"], "--rate goes with poisson"),
        (["--duration", "5s"], "--duration: goes with --rate"),
        (["--users", "1", "--option", "x"], "--option: must be KEY=JSON"),
        (["--users", "1", "--set", "scheduler.token_budget=1"], "--set: must be a key of requests"),
        (["--users", "1", "--model", "other"], "unknown model 'other'; nearest: stub"),
        (["--users", "1", "--prompts", "no-such.toml"], "no-such.toml"),
        (["--users", "1", "--prompt-tokens", "5000"], "at most 4096 tokens"),
    ],
)
def test_a_load_that_cannot_be_is_refused_and_leaves_nothing(rooftree, tmp_path, words, told):
    with serving() as (url, stub):
        done = rooftree("load", url, *words, "--out", tmp_path / "out")
    assert (done.code, done.out) == (2, "") and told in done.err
    assert stub.bodies == [] and not (tmp_path / "out").exists()


def test_ctrl_c_says_how_to_go_on(rooftree, tmp_path):
    """As a terminal sends it: to the process that has a request under way."""
    words = ["--users", "1", "--count", "3", *SIZES, "--out", str(tmp_path)]
    code = "import sys; from app.cli.main import main; sys.exit(main())"
    with serving(fault="silent", fails_from=1) as (url, stub):
        command = [sys.executable, "-c", code, "load", url, *words]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        while len(stub.bodies) < 2 and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        stated = process.communicate(timeout=300)[1]
        assert (
            process.returncode == 130
            and "what is finished is kept, and this goes on: rooftree load" in stated
        )
        stub.fault = ""
        assert rooftree("load", url, *words, "--resume").code == 0
        assert len(stub.bodies) == 4
    assert pq.read_table(tmp_path / "requests.parquet").column("request").to_pylist() == [0, 1, 2]


def test_an_observation_is_shown_written_and_read_again(rooftree, tmp_path):
    words = ("--for", "0.2s", "--every", "0.05s", "--out", tmp_path / "trace.parquet")
    scrapes = ["# TYPE a counter\n" + text for text in VLLM_SCRAPES]
    with serving("vllm", scrapes=list(scrapes)) as (url, _):
        done = rooftree("observe", url, *words)
    with serving("vllm", scrapes=list(scrapes)) as (url, _):
        answer = rooftree("observe", url, *words, "--json").answer
    assert (done.code, done.err) == (0, "") and "accepted by position 0.700, 0.400" in done.out
    assert answer["acceptance"]["tokens_per_step"] == pytest.approx(2.1)
    trace = read_acceptance(tmp_path / "trace.parquet")
    assert trace.level == 0 and "no positions" in trace.provenance.notes


@pytest.mark.parametrize(
    ("scrapes", "told"),
    [
        ((), "publishes no counters"),
        (VLLM_SCRAPES[::-1], "nothing was observed: the engine was restarted"),
        (
            ["# TYPE a counter\na_total 1\n"],
            "no trace is written: no speculative decoding counters",
        ),
    ],
)
def test_an_observation_without_a_trace_says_why(rooftree, tmp_path, scrapes, told):
    scrapes = ["# TYPE a counter\n" + text for text in scrapes]
    with serving("vllm", scrapes=scrapes) as (url, _):
        done = rooftree(
            "observe", url, "--for", "0.2s", "--every", "0.05s", "--out", tmp_path / "trace.parquet"
        )
    assert done.code == 2 and told in done.err and not (tmp_path / "trace.parquet").exists()


@pytest.mark.parametrize("verb", ["load", "observe"])
@pytest.mark.parametrize("url", ["127.0.0.1:80", "ftp://a", "http://a/?key=1"])
def test_what_is_no_address_is_refused(rooftree, tmp_path, verb, url):
    done = rooftree(verb, url, *(["--out", tmp_path, "--users", "1"] if verb == "load" else []))
    assert (done.code, done.out) == (2, "") and "must be a server's address" in done.err


def test_python_asks_the_same(tmp_path):
    scrapes = ["# TYPE a counter\n" + text for text in VLLM_SCRAPES]
    with serving("vllm", scrapes=scrapes) as (url, _):
        loaded = front.load(url, out=tmp_path, users=1, count=2, prompt_tokens=6, output_tokens=4)
        assert loaded["metrics"]["output_tokens"] == 8 and "TTFT" in repr(loaded)
        seen = front.observe(url, duration="0.1s", every="0.05s")
        assert seen["scrapes"] >= 2
    with pytest.raises(front.InputError, match="cannot be reached"):
        front.observe(url)
