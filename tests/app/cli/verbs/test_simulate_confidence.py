"""`simulate --trace` of a confidence trace: a policy from options, files and configurations, and
what is refused."""

import json

import pytest

TRAFFIC = ("--users", "2", "--count", "4", "--prompt-tokens", "32", "--output-tokens", "64")
DUAL, PLAIN = "confidence/masked-names--dual-cache", "confidence/masked-names--plain"


def simulate(rooftree, *options):
    return rooftree(
        "simulate", "--model", "llama-3.1-8b", "--device", "h100-sxm", *TRAFFIC, *options, "--json"
    )


def answer(done):
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_a_confidence_trace_serves_a_method_of_masked_blocks(rooftree):
    own = answer(simulate(rooftree, "--trace", DUAL, "--method", "fast-dllm"))
    assert own["metrics"]["finished"] == 4 and own["metrics"]["emitted"] == 256
    assert "threshold confidence=0.9" in " ".join(own["notes"])
    bold = answer(
        simulate(rooftree, "--trace", DUAL, "--method", "fast-dllm", "--commit", "threshold:0.5")
    )
    assert bold["metrics"]["tokens_per_s"] > own["metrics"]["tokens_per_s"]
    assert bold["inputs"]["speculation"]["refine"]["at"] == {"confidence": 0.5}
    again = answer(
        simulate(rooftree, "--trace", DUAL, "--method", "fast-dllm", "--commit", "threshold:0.5")
    )
    assert again["metrics"] == bold["metrics"]


def test_options_go_over_a_file_and_a_configuration_is_taken(rooftree, tmp_path):
    scenario = tmp_path / "s.yaml"
    refine = "{cache: none, block_tokens: 16}"
    scenario.write_text(f"speculation: {{trace: {PLAIN}, method: fast-dllm, refine: {refine}}}\n")
    written = answer(simulate(rooftree, "--scenario", scenario))
    assert written["inputs"]["speculation"]["refine"] == {"cache": "none", "block_tokens": 16}
    wider = answer(simulate(rooftree, "--scenario", scenario, "--block", "64"))["inputs"][
        "speculation"
    ]["refine"]
    assert (wider["cache"], wider["block_tokens"], wider["commit"]) == ("none", 64, "threshold")
    where = {"model": "llama-3.1-8b", "device": "h100-sxm"}
    config = tmp_path / "c.json"
    policy = {"commit": "static", "at": {"tokens": 2}, "block_tokens": 32, "cache": "none"}
    config.write_text(
        json.dumps(
            {
                "schema": 1,
                "deployment": where,
                "method": "fast-dllm",
                "trace": PLAIN,
                "refine": policy,
            }
        )
    )
    done = answer(rooftree("simulate", "--config", config, *TRAFFIC, "--json"))
    assert done["metrics"]["tokens_per_step"] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--draft-tokens", "3"), "--draft-tokens"),
        (("--match-rate", "0.4"), "--match-rate"),
        (("--commit", "thresold"), "--commit"),
        (("--commit", "threshold:2"), "--commit"),
        (("--block", "24"), "divide"),
        (("--cache", "none"), "as recorded"),
        (("--cache", "some"), "--cache"),
        (("--canvas", "80"), "divide"),
        (("--commit", "threshold:0.5,0.6"), "one policy"),
        (("--set", "speculation.draft_tokens=2"), "speculation.draft_tokens"),
        (("--set", "scheduler.prefix_cache=true"), "scheduler.prefix_cache"),
    ],
)
def test_what_does_not_go_with_it_is_refused_by_name(rooftree, tmp_path, options, said):
    plot = tmp_path / "page.html"
    done = simulate(rooftree, "--trace", DUAL, "--method", "fast-dllm", "--plot", plot, *options)
    assert done.code == 2 and said in done.err and not plot.exists(), done.err


def test_a_trace_without_its_method_or_a_damaged_one_is_refused(rooftree, root, tmp_path):
    done = simulate(rooftree, "--trace", DUAL)
    assert done.code == 2 and "method" in done.err
    done = simulate(rooftree, "--commit", "threshold:0.5")
    assert done.code == 2 and "--method" in done.err
    whole = (root / f"traces/recorded/{DUAL}.parquet").read_bytes()
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(whole[: len(whole) // 2] + whole[-2000:])
    done = simulate(rooftree, "--trace", broken, "--method", "fast-dllm")
    assert done.code == 2 and "broken.parquet" in done.err, done.err


def test_the_autoregressive_twin_stands_beside_it(rooftree):
    """On the same requests, and as without any decoder."""
    masked = answer(
        simulate(rooftree, "--trace", DUAL, "--method", "fast-dllm", "--compare", "autoregressive")
    )
    plain = answer(simulate(rooftree))
    own, twin = masked["cases"]
    assert [own["name"], twin["name"]] == ["as asked", "autoregressive"]
    assert (
        twin["metrics"] == plain["metrics"]
        and own["metrics"]["ttft_s"] != twin["metrics"]["ttft_s"]
    )
