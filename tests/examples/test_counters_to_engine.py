"""A serving engine counts: two scrapes become acceptance, a schedule of draft lengths, and the file
that it loads."""

import json

import pytest

from costmodel.laws.acceptance.decay import usual_ratio

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
BEFORE = {
    "drafts": 1_000,
    "draft_tokens": 3_000,
    "accepted_tokens": 1_500,
    "accepted_tokens_per_pos": (700, 500, 300),
}
AFTER = {
    "drafts": 3_000,
    "draft_tokens": 9_000,
    "accepted_tokens": 4_740,
    "accepted_tokens_per_pos": (2_200, 1_540, 1_000),
}
RATES = (0.75, 0.52, 0.35)  # of 2,000 drafts: 1,500, 1,040 and 700


def scrape(counts):
    """What `curl localhost:8000/metrics` prints of speculation."""
    lines = []
    for name, value in counts.items():
        lines.append(f"# TYPE vllm:spec_decode_num_{name}_total counter")
        values = enumerate(value) if isinstance(value, tuple) else [(None, value)]
        for position, number in values:
            at = "" if position is None else f',position="{position}"'
            labels = f'{{engine="0",model_name="{MODEL}"{at}}}'
            lines.append(f"vllm:spec_decode_num_{name}_total{labels} {number}.0")
    return "\n".join(lines) + "\n"


@pytest.fixture
def counted(user, tmp_path):
    (tmp_path / "before.prom").write_text(scrape(BEFORE))
    (tmp_path / "after.prom").write_text(scrape(AFTER))
    return user("rooftree traces import before.prom after.prom --method eagle-3 -o counted.parquet")


def test_the_import_says_what_was_counted(counted, user):
    assert "level 0" in counted.out and "vllm-metrics" in counted.out
    for rate in RATES:
        assert f"{rate:g}" in counted.out
    held = user("rooftree traces inspect counted.parquet --json").answer
    assert held["level"] == 0
    rows = user("rooftree replay counted.parquet --draft-tokens 1,2,3,4 --json").answer["chains"]
    emitted = [1 + sum(RATES[:k]) for k in (1, 2, 3)]
    assert [row["tokens_per_step"] for row in rows[:3]] == pytest.approx(emitted)
    assert rows[3]["tokens_per_step"] == pytest.approx(
        emitted[2] + usual_ratio("head", 3) * RATES[2] ** 2 / RATES[1]
    )
    assert [("known to K=3" in row["remark"]) for row in rows] == [False, False, False, True]


def test_counters_become_a_schedule_and_the_engines_file(counted, user, tmp_path):
    """Draft lengths fall as batches grow, and the file holds the schedule of the answer."""
    asked = (
        "rooftree optimize --trace counted.parquet --model llama-3.1-8b --batch 1,64,256,512"
        " --context 256"
    )
    answer = user(f"{asked} --out plan --json").answer
    rows = answer["choices"]
    assert [row["method"] for row in rows if row["draft_tokens"]].count("eagle-3") >= 2
    first = rows[0]
    assert first["batch"] == 1 and first["speedup"] > 1.3
    if first["draft_tokens"] <= 3:
        assert first["tokens_per_step"] == pytest.approx(1 + sum(RATES[: first["draft_tokens"]]))
    lengths = [row["draft_tokens"] for row in rows]
    assert lengths == sorted(lengths, reverse=True) and lengths[0] > lengths[-1]

    schedule = next(s for s in answer["schedules"] if s["method"] == "eagle-3")["schedule"]
    served = json.loads((tmp_path / "plan" / "vllm" / "vllm-speculative-config.json").read_text())
    assert served["method"] == "eagle3"
    ranges = served.get("num_speculative_tokens_per_batch_size")
    assert ranges, sorted(served)
    assert [list(each) for each in ranges] == [list(each) for each in schedule]
    assert "llama-3.1-8b" in (tmp_path / "plan" / "vllm" / "vllm-serve.sh").read_text().lower()
