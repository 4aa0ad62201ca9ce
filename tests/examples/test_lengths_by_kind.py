"""A mixed batch: what would a draft length for every kind of request gain, opt-outs included?

Asked in vllm#48202, sglang#30263 and sglang#36127. The gain is small while few requests run, since
verifying is nearly free there, as vllm#48202 saw of fixed blocks up to 64 requests.
"""

import pytest

TRACE = "--trace smollm2-135m--prompt-lookup--greedy --model llama-3.1-8b --device h100-sxm"


def test_the_gain_grows_with_the_load_and_some_kinds_opt_out(user):
    line = f"rooftree optimize {TRACE} --tree-nodes 0 --context 512 --batch 1,32,256 --by-kind"
    rows = user(f"{line} --out plan --json").answer["kind_lengths"]
    assert [row["batch"] for row in rows] == [1, 32, 256]
    gains = [row["gain_ratio"] for row in rows]
    assert all(gain >= 0 for gain in gains) and gains[0] < 0.01 < gains[2] < 0.1
    own = {length["kind"]: length for length in rows[2]["lengths"]}
    assert sum(length["share"] for length in own.values()) == pytest.approx(1)
    assert own["chat"]["draft_tokens"] == 0 < own["summarising"]["draft_tokens"]
    said = " ".join(user(f"{line} --out plan").out.split())
    assert "chat off" in said and "an engine that pads all to the longest gains nothing" in said


def test_it_needs_the_search_of_drafts(user):
    line = f"rooftree optimize {TRACE} --by-kind --search full --devices 1 --out plan"
    assert "--by-kind" in user(line, code=2).err
