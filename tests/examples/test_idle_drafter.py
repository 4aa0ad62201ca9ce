"""A schedule that falls to K=0: what does the loaded drafter cost, and should it be off altogether?

Asked in vllm#49548, vllm#49986 and vllm-ascend#16638. The drafter stays in memory and reads every
token, which vllm#53420 and its pull request 53426 timed; what the V1 runner lost in whole graphs
(vllm#49548) is not priced.
"""

import json

PLACED = "--model qwen3.5-122b-a10b --dtype fp8 --device rtx-pro-6000 --tp 2 --draft-tokens 1,2"
BATCHES = "--batch 1,2,4,8,16,64,256"


def asked(user, acceptance, out):
    line = f"rooftree optimize {PLACED} --drafter mtp:{acceptance} {BATCHES} --out {out}"
    return user(f"{line} --json").answer, user(line).out


def test_ranges_without_drafts_say_what_they_cost(user, tmp_path):
    answer, words = asked(user, 0.6, "plan")
    (schedule,) = answer["schedules"]
    assert schedule["schedule"][-1][2] == 0 and schedule["schedule"][0][2] > 0
    assert 0.01 < schedule["idle_loss_ratio"] < 0.1 < schedule["gain_over_off_ratio"]
    said = " ".join(words.split())
    assert "K=0 leaves the drafter loaded, and vllm runs it to keep its cache in step" in said
    assert "faster on average than a server without the drafter" in said
    loaded = json.loads((tmp_path / "plan" / "vllm" / "vllm-speculative-config.json").read_text())
    assert loaded["num_speculative_tokens_per_batch_size"][-1][2] == 0


def test_off_altogether_where_no_drafter_is_faster(user, tmp_path):
    """At this acceptance drafting wins at few batches; no engine is told to load a drafter."""
    answer, words = asked(user, 0.4, "plan")
    (schedule,) = answer["schedules"]
    assert schedule["schedule"] == [[1, 256, 0]] and schedule["gain_over_off_ratio"] < 0
    assert any(choice["draft_tokens"] for choice in answer["choices"])
    assert "off altogether" in words and "plain decoding" in words
    assert "--speculative-config" not in (tmp_path / "plan" / "vllm" / "vllm-serve.sh").read_text()


def test_the_same_under_a_load(user):
    """With the drafter loaded and K=0 from two requests on, users wait longer than without it."""
    load = "--rate 2 --count 30 --prompt-tokens 512 --output-tokens 64 --json"
    placed = PLACED.replace(" --draft-tokens 1,2", "")
    plain = user(f"rooftree simulate {placed} {load}").answer["metrics"]
    idle = user(
        f"rooftree simulate {placed} --method mtp --acceptance 0.6 --set"
        f" speculation.schedule=1-1:1,2-64:0 {load}"
    ).answer["metrics"]
    assert idle["tpot_s"]["mean"] > plain["tpot_s"]["mean"]
