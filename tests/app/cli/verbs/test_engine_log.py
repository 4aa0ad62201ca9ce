"""--engine-log: the cache that a running engine said it has goes over the one that follows from the
memory."""

import pytest

MODEL = ("--model", "llama-3.1-8b", "--device", "rtx-4090")
TOKENS = 20_000


@pytest.fixture
def log(tmp_path):
    file = tmp_path / "vllm.log"
    file.write_text(
        "INFO [api_utils.py:273] non-default args: {'max_num_seqs': 24, 'max_num_batched_tokens':"
        f" 512}}\nINFO [kv_cache_utils.py:2146] GPU KV cache size: {TOKENS:,} tokens\n"
    )
    return file


def test_batches_are_those_that_the_logged_cache_holds(rooftree, log):
    words = ("capacity", *MODEL, "--rate", "0.5", "--prompt", "1000", "--output", "200", "--json")
    derived, told = (
        rooftree(*words, *more).answer["plans"][0] for more in ((), ("--engine-log", log))
    )
    assert told["memory"]["largest_batch"] < derived["memory"]["largest_batch"]
    assert (
        (told["memory"]["largest_batch"] + 1) * (1200 + 8)
        > TOKENS
        >= told["memory"]["largest_batch"] * 1200
    )


@pytest.mark.parametrize("method", [(), ("--drafter", "eagle-3:0.7", "--draft-tokens", "3")])
def test_what_does_not_fit_the_logged_cache_is_marked(rooftree, log, method):
    words = (
        "predict",
        *MODEL,
        "--batch",
        "16,40",
        "--context",
        "1024",
        "--draft-tokens",
        "0",
        *method,
        "--json",
    )
    assert [
        row["feasible"] for row in rooftree(*words, "--engine-log", log).answer["predictions"]
    ] == [True, False]
    assert all(row["feasible"] for row in rooftree(*words).answer["predictions"])


def test_the_simulator_takes_cache_and_limits_and_options_go_over_them(rooftree, log):
    words = (
        "simulate",
        *MODEL,
        "--count",
        "4",
        "--users",
        "2",
        "--prompt-tokens",
        "100",
        "--output-tokens",
        "9",
        "--json",
    )
    from_log = ("--set", f"scheduler.engine_log={log}")
    told = rooftree(*words, *from_log).answer["scheduler"]
    assert (told["kv_blocks"], told["max_requests"], told["token_budget"]) == (
        TOKENS // 16,
        24,
        512,
    )
    stated = rooftree(*words, *from_log, "--set", "scheduler.kv_blocks=77").answer["scheduler"]
    assert (stated["kv_blocks"], stated["max_requests"]) == (77, 24)


def test_a_recommendation_for_a_logged_cache_is_simulated_with_it(rooftree, log, tmp_path):
    words = (
        "--drafter",
        "eagle-3:0.7",
        "--batch",
        "4",
        "--engine-log",
        log,
        "--out",
        tmp_path / "out",
    )
    rooftree("optimize", *MODEL, *words, "--json")
    found = rooftree(
        "simulate",
        "--config",
        tmp_path / "out" / "recommendation.json",
        "--count",
        "3",
        "--users",
        "1",
        "--prompt-tokens",
        "50",
        "--output-tokens",
        "5",
        "--json",
    ).answer
    assert found["scheduler"]["kv_blocks"] == TOKENS // 16


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nothing\n", "holds no line"),
        ("max_num_seqs=4\n", "tells limits of the scheduler, and no cache"),
    ],
)
def test_a_log_without_a_cache_is_refused(rooftree, tmp_path, text, said):
    file = tmp_path / "other.log"
    file.write_text(text)
    done = rooftree("optimize", *MODEL, "--engine-log", file, "--out", tmp_path / "out")
    assert done.code == 2 and said in done.err and str(file) in done.err


def test_a_cache_of_a_spread_model_is_refused(rooftree, log):
    done = rooftree("predict", *MODEL, "--pp", "2", "--draft-tokens", "0", "--engine-log", log)
    assert done.code == 2 and "one tensor-parallel group" in done.err
