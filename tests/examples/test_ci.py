"""A CI engineer: predictions as files, a check that fails where they move, and measured rows beside them."""

import pytest

LISTS = """models: [llama-3.1-8b]
devices: [h100-sxm]
drafters: ["eagle-3:0.78,0.61,0.48"]
batches: [1, 8]
"""
ROWS = """model,device,engine,tp,users,prompt_tokens,output_tokens,tpot_ms
llama-3.1-8b,h100-sxm,vllm,1,8,1024,256,8.0
llama-3.1-8b,h100-sxm,vllm,1,32,1024,256,9.5
"""


def test_cells_are_kept_and_compared(user, tmp_path):
    (tmp_path / "lists.yaml").write_text(LISTS)
    for name in ("old", "new"):
        user(f"rooftree sweep lists.yaml --out {name}.parquet")
    same = user("rooftree sweep --compare old.parquet new.parquet --threshold 0.02")
    assert same.out.startswith("0 cells moved")
    (tmp_path / "lists.yaml").write_text(LISTS.replace("0.48", "0.20"))
    user("rooftree sweep lists.yaml --out new.parquet")
    other = user("rooftree sweep --compare old.parquet new.parquet --threshold 0.02")
    assert "2 appeared, 2 disappeared" in other.out
    assert "no such file" in user("rooftree sweep --compare old.parquet x.parquet", code=2).err


def test_a_configuration_becomes_what_the_engine_loads_and_is_held_to_its_limit(user):
    user("rooftree optimize --model llama-3.1-8b --batch 8 --drafter eagle-3 --out rec --quiet")
    said = user("rooftree export vllm --from rec/recommendation.json --out serve").out
    assert "--speculative-config" in said
    asked = "rooftree predict --config rec/recommendation.json"
    within = [
        user(f"{asked} --slo-tpot {limit} --json").answer["predictions"][-1]["meets_limits"]
        for limit in (1, 50)
    ]
    assert within == [False, True]


@pytest.mark.heavy
def test_measured_rows_may_be_named_as_options_are(user, tmp_path):
    (tmp_path / "runs.csv").write_text(ROWS)
    usual = ROWS.replace("model,device,engine,tp,users,prompt_tokens,output_tokens", COLUMNS)
    (tmp_path / "usual.csv").write_text(usual)
    own, same = (user(f"rooftree score {name}.csv --json").answer for name in ("runs", "usual"))
    assert own["slices"] == same["slices"] and own["slices"]
    (tmp_path / "less.csv").write_text("model,device\nllama-3.1-8b,h100-sxm\n")
    said = user("rooftree score less.csv", code=2).err
    assert "needed are backend" in said and "prompt_tokens" in said


COLUMNS = "model_path,system,backend,tp_size,concurrency,isl,osl"
