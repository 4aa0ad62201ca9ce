"""Adapters of one model: how many draft tokens suit each of them, by the answers of its server?"""

import json

import numpy as np
import pytest

KEPT = {"meta-llama/Llama-3.1-8B-Instruct": 0.75, "sql": 0.85, "chat": 0.3}
ASK = "rooftree optimize --model llama-3.1-8b --method eagle-3 --device h100-sxm --batch 1,32"


def responses(key="model", per_step=False):
    """Answers of a server that drafts five tokens, as vLLM reports them by request."""
    generator, rows = np.random.default_rng(3), []
    for name, kept in KEPT.items():
        for _ in range(30):
            accepted = np.minimum(generator.geometric(1.0 - kept, 60) - 1, 5)
            counts = {
                "num_spec_steps": 60,
                "num_spec_tokens": 5,
                "num_draft_tokens": 300,
                "num_accepted_draft_tokens": int(accepted.sum()),
                "acceptance_histogram": np.bincount(accepted, minlength=6).tolist(),
            }
            if per_step:
                counts = {
                    "num_spec_steps": 60,
                    "per_step_accepted": accepted.tolist(),
                    "per_step_drafted": [5] * 60,
                }
            rows.append({key: name, "metrics": {"speculative_decoding": counts}})
    return "".join(json.dumps(row) + "\n" for row in generator.permutation(rows).tolist())


@pytest.mark.heavy
def test_every_adapter_has_a_length_of_its_own(user, tmp_path):
    (tmp_path / "answers.jsonl").write_text(responses())
    line = f"{ASK} --metrics answers.jsonl --out answer"
    answer = user(f"{line} --json").answer
    rows = answer["counters"]["adapters"]
    assert [(row["adapter"], row["batch"]) for row in rows] == [
        (name, batch) for name in sorted(KEPT) for batch in (1, 32)
    ]
    best = {row["adapter"]: row for row in rows if row["batch"] == 32}
    assert best["chat"]["best_draft_tokens"] < best["sql"]["best_draft_tokens"] == 5
    assert best["chat"]["answer"] == "change" and best["sql"]["answer"] == "keep"
    for name, kept in KEPT.items():
        low, high = best[name]["tokens_per_step_interval"]
        assert low - 0.05 < (1 - kept**6) / (1 - kept) < high + 0.05
        assert best[name]["steps"] == 1800
    steps = sum(row["steps"] for row in best.values())
    assert answer["counters"]["in_use"]["steps"] == steps == 5400
    shown = user(line).out
    assert "by adapter" in shown and "adapters differ at batch 32" in shown


@pytest.mark.heavy
def test_an_adapter_alone_is_answered_as_in_company(user, tmp_path):
    """Whether its responses name it by a key of adapters or by the model, or list their steps."""
    text = responses()
    (tmp_path / "all.jsonl").write_text(text)
    (tmp_path / "named.jsonl").write_text(responses("lora_name", per_step=True))
    lines = [line for line in text.splitlines() if json.loads(line)["model"] == "chat"]
    (tmp_path / "chat.jsonl").write_text("\n".join(lines))
    together, named, alone = (
        user(f"{ASK} --metrics {name}.jsonl --out answer --json").answer["counters"]
        for name in ("all", "named", "chat")
    )
    assert together["adapters"] == named["adapters"] and not alone["adapters"]
    rows = [row for row in together["adapters"] if row["adapter"] == "chat"]
    for row, verdict in zip(rows, alone["verdicts"], strict=True):
        for key in ("batch", "best_draft_tokens", "gain_ratio", "answer", "suffices"):
            assert row[key] == verdict[key]
        assert row["tokens_per_step"] == alone["in_use"]["tokens_per_step"]


def test_counters_of_several_models_are_adapters_where_they_name_no_other_model(user, tmp_path):
    def counters(model, kept):
        drafts = 4000
        accepted = [round(drafts * kept**depth) for depth in (1, 2, 3)]
        values = {"num_drafts": drafts, "num_draft_tokens": 3 * drafts}
        values["num_accepted_tokens"] = sum(accepted)
        at = f'model_name="{model}"'
        lines = [f"vllm:spec_decode_{name}_total{{{at}}} {count}" for name, count in values.items()]
        lines += [
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{at},position="{depth}"}} {count}'
            for depth, count in enumerate(accepted)
        ]
        return "\n".join(lines) + "\n"

    text = counters("llama-3.1-8b", 0.8) + counters("sql", 0.3) + counters("qwen3-8b", 0.6)
    (tmp_path / "m.prom").write_text(text)
    found = user(f"{ASK} --metrics m.prom --out answer --json").answer["counters"]
    assert {row["adapter"] for row in found["adapters"]} == {"llama-3.1-8b", "sql"}
    assert found["in_use"]["steps"] == 4000


def test_responses_stand_alone(user, tmp_path):
    (tmp_path / "answers.jsonl").write_text(responses())
    said = user(f"{ASK} --metrics answers.jsonl answers.jsonl --out answer", code=2).err
    assert "holds responses, which tell all by themselves" in said
