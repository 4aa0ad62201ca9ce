"""Result files of papers: Spec-Bench lists every step, Medusa only how many there were."""

import json

import pytest

STEPS = ([1, 4, 1, 3, 2, 2, 3, 1], [4, 1, 2, 1, 1, 5, 2], [2, 2, 3, 1, 1, 4, 4, 1, 3])


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def spec_bench(tmp_path):
    rows = [
        {
            "question_id": 81 + at,
            "category": "writing" if at else "math",
            "model_id": "vicuna-7b-v1.3-eagle",
            "choices": [
                {
                    "index": 0,
                    "turns": ["..."],
                    "decoding_steps": [len(steps)],
                    "new_tokens": [sum(steps)],
                    "wall_time": [0.4],
                    "accept_lengths": steps,
                }
            ],
        }
        for at, steps in enumerate(STEPS)
    ]
    (tmp_path / "specbench.jsonl").write_text(lines(rows))


@pytest.fixture
def medusa(tmp_path):
    rows = [
        {
            "question_id": 81 + at,
            "model_id": "medusa-vicuna-7b-v1.3-temperature-0.0",
            "choices": [
                {
                    "index": 0,
                    "idxs": [len(steps) - 1],
                    "new_tokens": [sum(steps)],
                    "wall_time": [0.4],
                }
            ],
        }
        for at, steps in enumerate(STEPS)
    ]
    (tmp_path / "medusa.jsonl").write_text(lines(rows))


MEAN = sum(map(sum, STEPS)) / sum(map(len, STEPS))


def test_spec_bench_lists_every_step(user, spec_bench):
    found = user(
        "rooftree traces import specbench.jsonl --method eagle-2 --model vicuna-7b -o eagle.parquet"
        " --json"
    )
    assert (found.answer["format"], found.answer["level"], found.answer["requests"]) == (
        "answers",
        1,
        len(STEPS),
    )
    held = user("rooftree traces inspect eagle.parquet --json").answer
    assert held["positions"] == sum(map(sum, STEPS))
    whole = user("rooftree replay eagle.parquet --draft-tokens 16 --json").answer["chains"][0]
    assert whole["tokens_per_step"] == pytest.approx(MEAN)


def test_medusa_knows_the_mean_alone(user, medusa):
    found = user(
        "rooftree traces import medusa.jsonl --method medusa --model vicuna-7b -o medusa.parquet"
        " --json"
    )
    assert (found.answer["format"], found.answer["level"]) == ("answers", 0)
    assert found.answer["tokens_per_step"] == pytest.approx(MEAN)


ASKED = "rooftree predict --model vicuna-7b --device a100-sxm-80 --batch 1 --json"


def test_the_mean_answers_how_fast_medusas_own_tree_would_be(user, medusa):
    """The file does not say what was drafted: the refusal repeats the mean and how to state it,
    which then answers."""
    user("rooftree traces import medusa.jsonl --method medusa --model vicuna-7b -o medusa.parquet")
    refused = user(f"{ASKED} --trace medusa.parquet", code=2)
    assert (
        f"{MEAN:.3g} tokens per step and no draft length" in refused.err
        and "medusa:length=" in refused.err
    )
    drafted = user(f"{ASKED} --drafter medusa:length={MEAN}").answer["predictions"][-1]
    assert drafted["tokens_per_step"] == pytest.approx(MEAN) and drafted["draft_tokens"] > 16
    assert 1.0 < drafted["speedup"] < MEAN
    refused = user(
        f"rooftree optimize --model vicuna-7b --drafter medusa:length={MEAN} --batch 1 --out plan",
        code=2,
    )
    assert f"medusa:length={MEAN:g}@K" in refused.err
    user(
        f"rooftree optimize --model vicuna-7b --drafter medusa:length={MEAN}@4 --batch 1 --out plan"
        " --quiet"
    )


def test_a_draft_length_named_by_hand_makes_chains_of_it(user, medusa):
    user(
        "rooftree traces import medusa.jsonl --draft-tokens 4 --method medusa --model vicuna-7b -o"
        " medusa.parquet"
    )
    (row,) = user(f"{ASKED} --trace medusa.parquet --draft-tokens 4").answer["predictions"]
    assert row["tokens_per_step"] == pytest.approx(MEAN) and 1.0 < row["speedup"] < MEAN


def test_every_step_answers_what_to_run(user, spec_bench):
    user(
        "rooftree traces import specbench.jsonl --method eagle-2 --model vicuna-7b -o eagle.parquet"
    )
    plan = user(
        "rooftree optimize --trace eagle.parquet --model vicuna-7b --batch 1,64 --out plan --json"
    ).answer
    small, large = plan["choices"]
    assert small["draft_tokens"] >= large["draft_tokens"] and small["speedup"] > 1.2
