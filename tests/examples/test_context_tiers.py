"""Should long requests draft less? Acceptance by context, a drafter with a window, and what one
schedule for all loses.

Asked in vllm#48627, sglang#6783, sglang#9319 and, of acceptance that falls beyond 100,000 tokens,
in GLM-5.3-Flash-EXL3-2x-DGX-Sparks#73.
"""

import csv
import re

import numpy as np
import pytest

from traces.kinds.acceptance import AcceptanceTrace, Provenance
from traces.storage.acceptance_file import write_acceptance

CONTEXTS = "1024,4096,16384"


@pytest.fixture
def falling(tmp_path):
    """Requests of three prompt lengths, whose drafts are accepted less the longer they are."""
    generator, requests, output = np.random.default_rng(0), 20, 200
    prompts = np.repeat(np.array([900, 3600, 15000], dtype=np.int32), requests)
    rates = np.repeat([0.8, 0.7, 0.4], requests * output)[:, None]
    accepted = np.cumprod(generator.random((rates.size, 8)) < rates, axis=1).sum(axis=1)
    trace = AcceptanceTrace(
        provenance=Provenance(model="llama-3.1-8b", method="eagle-3"),
        request_ids=tuple(map(str, range(prompts.size))),
        prompt_kinds=("chat",) * prompts.size,
        prompt_tokens=prompts,
        offsets=np.arange(prompts.size + 1, dtype=np.int64) * output,
        first_step_position=1,
        emitted=(1 + accepted).astype(np.int16),
    )
    write_acceptance(trace, tmp_path / "falling.parquet")


def test_a_recording_answers_by_context(user, falling):
    line = (
        "rooftree optimize --trace falling.parquet --device h100-sxm --tree-nodes 0 --batch 1,16"
        f" --context {CONTEXTS} --out plan"
    )
    alike, own = user(f"{line} --json").answer, user(f"{line} --by-context --json").answer
    at = {row["context"]: row["draft_tokens"] for row in own["choices"] if row["batch"] == 1}
    assert at[1024] > at[4096] > at[16384]
    assert len({row["draft_tokens"] for row in alike["choices"] if row["batch"] == 1}) == 1
    (shared,) = own["context_schedules"]
    lost = {row["context"]: row["loss_ratio"] for row in shared["contexts"]}
    assert lost[16384] > 0.03 > lost[4096], "what engines without a key for the context give away"
    said = " ".join(user(f"{line} --by-context --explain").out.split())
    assert re.search(r"replayed by context: chain:8 emits 4\.\d+ at 1,024; .* at 16,384", said)
    assert "as engines choose by batch alone" in said


def test_without_positions_it_says_what_is_needed(user):
    refused = user(
        f"rooftree optimize --drafter eagle-3:0.7 --model llama-3.1-8b --context {CONTEXTS}"
        " --by-context --out plan",
        code=2,
    )
    assert "by_context" in refused.err or "--by-context" in refused.err
    assert "recorded positions" in refused.err


def test_stated_acceptance_is_asked_once_a_context(user, published):
    """Gemma-4-31B at 4,096 and 32,768 tokens: gains within a fifth of those measured in vLLM, and
    a best length that is no shorter where the text is longer."""
    with (published / "tracker_numbers.csv").open(newline="", encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if "Gemma-4-31B" in row["setup"]]
    measured = {}
    for row in rows:
        context, how = re.search(r"of (\d+) tokens, (.*)", row["setup"]).groups()
        measured[int(context), int(how[-1]) if "K=" in how else 0] = float(row["value"])
    stated = {4096: "2.768@3,3.096@5,3.237@7", 32768: "2.997@3,3.454@5,3.969@7"}
    best = []
    for context, lengths in stated.items():
        found = user(
            "rooftree optimize --model gemma-4-31b --dtype fp8 --kv-dtype bf16 --device h100-nvl"
            f" --drafter mtp:length={lengths} --draft-tokens 3,5,7 --batch 11 --context"
            f" {context + 128} --out plan --json"
        ).answer
        (choice,) = found["choices"]
        best.append(choice["draft_tokens"])
        k = choice["draft_tokens"]
        assert choice["speedup"] == pytest.approx(
            measured[context, 0] / measured[context, k], rel=0.2
        )
        least = min(measured[context, own] for own in (3, 5, 7))
        assert measured[context, k] < 1.12 * least, "what the chosen length loses there"
    assert best == sorted(best)


def test_a_drafter_with_a_window_reads_no_more_than_it(user, tmp_path):
    user("rooftree methods new windowed --like eagle-3 --out windowed.toml")
    path = tmp_path / "windowed.toml"
    text = path.read_text()
    assert "# context_tokens = (none)" in text
    path.write_text(text.replace("# context_tokens = (none)", "context_tokens = 2048"))
    steps = {}
    for method in ("eagle-3", "windowed.toml"):
        rows = user(
            f"rooftree predict --model llama-3.1-8b --device h100-sxm --method {method}"
            " --acceptance 0.7 --draft-tokens 3 --batch 8 --context 1024,32768 --json"
        ).answer["predictions"]
        steps[method] = [row["breakdown_s"]["draft"] for row in rows]
    assert steps["windowed.toml"][0] == pytest.approx(steps["eagle-3"][0])
    assert steps["windowed.toml"][1] < 0.9 * steps["eagle-3"][1]
