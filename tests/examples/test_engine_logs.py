"""Logs of three engines: each imports without naming its format, and answers what it can know."""

import json

import pytest

SGLANG = "".join(
    f"[2025-10-22 10:27:{second} TP0] Decode batch. #running-req: {running}, #token:"
    f" {186 * running}, token usage: 0.00, accept len: {length:.2f}, accept rate: {length / 4:.2f},"
    " cuda graph: True, gen throughput (token/s): 178.86, #queue-req: 0, \n"
    for second, running, length in ((57, 1, 2.16), (58, 3, 2.40), (59, 4, 2.20))
)
TENSORRT_LLM = "".join(
    json.dumps(
        {
            "iter": step,
            "iterLatencyMS": 9.5,
            "inflightBatchingStats": {
                "numScheduledRequests": 4,
                "numContextRequests": 0,
                "numGenRequests": 4,
            },
            "specDecodingStats": {
                "numDraftTokens": 12,
                "numAcceptedTokens": accepted,
                "numRequestsWithDraftTokens": 4,
                "acceptanceLength": 1 + accepted / 4,
                "iterLatencyMS": 9.5,
                "draftOverhead": 0.1,
            },
        }
    )
    + "\n"
    for step, accepted in enumerate((5, 7, 6))
)
LLAMA_CPP = (
    "srv  update_slots: all slots are idle\ndraft acceptance = 0.62008 ( 1797 accepted /  2898"
    " generated), mean acceptance length =  2.24, acceptance rate per position = (0.727, 0.513)\n"
)
LOGS = {
    # running requests weigh the lines: (2.16 + 3 * 2.40 + 4 * 2.20) / 8
    "sglang": (SGLANG, "eagle-3", "llama-3.1-8b", 2.27),
    "tensorrt-llm": (TENSORRT_LLM, "eagle-3", "llama-3.1-8b", 1 + 18 / 12),
    "llama.cpp": (LLAMA_CPP, "mtp", "qwen3.5-27b", 2.24),
}


@pytest.mark.parametrize("engine", LOGS)
def test_a_log_imports_as_what_it_is(user, tmp_path, engine):
    text, method, model, emitted = LOGS[engine]
    (tmp_path / "server.log").write_text(text)
    found = user(
        f"rooftree traces import server.log --method {method} --model {model} -o log.parquet --json"
    ).answer
    assert found["level"] == 0 and found["format"].startswith(engine.replace(".", "-"))
    assert found["tokens_per_step"] == pytest.approx(emitted, abs=0.006)
    said = user(f"rooftree traces import server.log --method {method} -o again.parquet").out
    assert f"{emitted:.2f}"[:4] in said


@pytest.mark.parametrize("engine", LOGS)
def test_a_log_answers_what_to_run(user, tmp_path, engine):
    """At the length that was running the answer emits what the log says; the engine's own file is
    written."""
    text, method, model, emitted = LOGS[engine]
    (tmp_path / "server.log").write_text(text)
    user(f"rooftree traces import server.log --method {method} --model {model} -o log.parquet")
    length = 2 if engine == "llama.cpp" else 3
    asked = (
        f"rooftree predict --trace log.parquet --model {model} --draft-tokens {length} --batch 1,32"
        " --json"
    )
    rows = user(asked).answer["predictions"]
    assert [row["tokens_per_step"] for row in rows] == pytest.approx([emitted] * 2, abs=0.01)
    assert all(row["speedup"] > 1.0 for row in rows[:1])
    plan = user(
        f"rooftree optimize --trace log.parquet --model {model} --engine {engine} --batch 1,8 --out plan"
        " --json"
    ).answer
    assert plan["choices"][0]["draft_tokens"] >= 1
    files = [path for path in (tmp_path / "plan" / engine).rglob("*") if path.is_file()]
    assert files and any(method.split("-")[0] in path.read_text().lower() for path in files)


def test_a_log_without_speculation_is_refused_with_a_reason(user, tmp_path):
    (tmp_path / "plain.log").write_text(
        "[2025-06-07 21:25:14 TP0] Decode batch. #running-req: 1, #token: 9322, token usage: 0.00, "
        "gen throughput (token/s): 97.52, #queue-req: 0\n"
    )
    refused = user("rooftree traces import plain.log -o log.parquet", code=2)
    assert "plain.log" in refused.err and not (tmp_path / "log.parquet").exists()
