"""A sweep file is refused by file, key, rule and value before anything is computed."""

import os

import pytest

from app.answers.sweep.file import MOST_FILE_BYTES, SweepFile, SweepTask, read_sweep
from app.questions.field import fields_of
from app.questions.predict import PredictQuestion
from hardware_profiles.errors import InputError

WRONG = {
    "models: [llama-3.1-8b]\nengine: [vllm]": "engine: unknown key 'engine'; nearest: engines",
    "devices: [h100-sxm]": "models: Field required",
    "models: []": "models: Tuple should have at least 1 item",
    "models: llama-3.1-8b": "models: Input should be a valid tuple",
    "models: [3]": "models.0: Input should be a valid string",
    "models: [llama-3.1-8b]\nbatches: [8, 0]": (
        "batches.1: Input should be greater than or equal to 1, got 0"
    ),
    "models: [llama-3.1-8b]\nbatches: [true]": "batches.0: Input should be a valid integer",
    "models: [llama-3.1-8b]\nbatches: [1.5]": "batches.0: Input should be a valid integer, got 1.5",
    "models: [llama-3.1-8b]\ncontexts: [-1]": (
        "contexts.0: Input should be greater than or equal to 0, got -1"
    ),
    "models: [llama-3.1-8b]\ntensor_parallel: [0]": (
        "tensor_parallel.0: Input should be greater than or equal to 1"
    ),
    "models: [llama-3.1-8b]\nbatches: [8, 8]": (
        "batches: must hold each entry once, and holds 8 twice"
    ),
    "models: [llama-3.1-9b]": "models.0: unknown model 'llama-3.1-9b'; nearest: ",
    "models: [llama-3.1-8b]\ndevices: [h100-sxm, h10]": (
        "devices.1: unknown device 'h10'; nearest: "
    ),
    "models: [llama-3.1-8b]\nengines: [vlm]": "engines.0: unknown engine 'vlm'; nearest: vllm",
    "models: [llama-3.1-8b]\ndrafters: [eagle-9]": (
        "drafters.0: unknown method or draft model 'eagle-9'; nearest: "
    ),
    'models: [llama-3.1-8b]\ndrafters: ["eagle-3:1.5"]': "drafters.0: ",
    'models: [llama-3.1-8b]\ndrafters: ["eagle-3:none.parquet"]': (
        "drafters.0: drafter: names no trace that exists"
    ),
    "models: [llama-3.1-8b]\ntraces: [none.parquet]": (
        "traces.0: none.parquet: there is no such file"
    ),
    "models: [llama-3.1-8b]\nrates: [0]": "rates.0: Input should be greater than 0, got 0",
    "models: [llama-3.1-8b]\nusers: [0.5]": "users.0: Input should be a valid integer, got 0.5",
    "models: [llama-3.1-8b]\nrates: [1]\nusers: [1]": "leave out one of rates and users",
    "models: [llama-3.1-8b]\nrates: [1]\nbatches: [1]": "batches follow from a load",
    "models: [llama-3.1-8b]\nslo_ttft: 500": "slo_ttft goes with rates or users",
    "models: [llama-3.1-8b]\nslo_e2e: 500": "slo_e2e goes with rates or users",
    "models: [llama-3.1-8b]\nrates: [1]\nslo_tpot: p99:40": (
        "slo_tpot: Input should be a valid number"
    ),
    "models: [llama-3.1-8b]\nrates: [1]\nprompt_tokens: [100, even:3]": (
        "prompt_tokens.1: prompt tokens: must be N, uniform:LOW:HIGH"
    ),
    "models: [llama-3.1-8b": "must be YAML",
    "[llama-3.1-8b]": "must hold lists such as models and devices, got 'list'",
    "": "must hold lists such as models and devices, got 'NoneType'",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_file_is_refused_by_file_key_and_rule(sweep_of, tmp_path, text):
    with pytest.raises(InputError) as refused:
        sweep_of(text, "wrong.yaml")
    assert str(refused.value).startswith(f"{tmp_path / 'wrong.yaml'}: {WRONG[text]}")


def test_all_names_that_are_wrong_are_named_at_once(sweep_of):
    with pytest.raises(InputError, match="2 things are wrong") as refused:
        sweep_of({"models": ["lama"], "devices": ["h100-sxm", "h10"]})
    assert "models.0" in str(refused.value)
    assert "devices.1" in str(refused.value)


def test_what_is_no_bounded_regular_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_sweep(tmp_path / "absent.yaml")
    with pytest.raises(InputError, match="must be a regular file"):
        read_sweep(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="must be a regular file"):
        read_sweep(tmp_path / "pipe")
    (tmp_path / "long").write_bytes(b"#" * (MOST_FILE_BYTES + 1))
    with pytest.raises(InputError, match="must be at most"):
        read_sweep(tmp_path / "long")
    (tmp_path / "tag").write_text("models: !!python/object/apply:os.system [true]")
    with pytest.raises(InputError, match="must be YAML"):
        read_sweep(tmp_path / "tag")


def test_more_cells_than_a_file_holds_are_refused(sweep_of):
    with pytest.raises(InputError, match="must make at most 5000000 cells"):
        sweep_of(
            {"models": ["llama-3.1-8b"], "batches": [*range(1, 5001)], "contexts": [*range(5000)]}
        )


def test_paths_are_taken_from_the_files_own_folder(sweep_of, tmp_path, root):
    shipped = root / "traces" / "recorded" / "smollm2-135m--prompt-lookup--greedy.parquet"
    (tmp_path / "mine.parquet").write_bytes(shipped.read_bytes())
    sweep = sweep_of(
        {
            "models": ["llama-3.1-8b"],
            "traces": ["mine.parquet"],
            "drafters": ["n-gram:mine.parquet"],
        }
    )
    assert sweep.place("mine.parquet") == str(tmp_path / "mine.parquet")
    assert sweep.place("llama-3.1-8b") == "llama-3.1-8b"
    assert sweep.drafter("n-gram:mine.parquet") == f"n-gram:{tmp_path / 'mine.parquet'}"
    before = sweep.digest(0)
    (tmp_path / "mine.parquet").write_bytes(shipped.read_bytes() + b"\0")
    assert before != sweep.digest(0), "another recording under the same name is another sweep"


def test_a_digest_tells_sweeps_apart(sweep_of):
    lists = {"models": ["llama-3.1-8b"], "batches": [1, 2]}
    digest = sweep_of(lists).digest(0)
    assert digest == sweep_of(
        "models: [llama-3.1-8b]\nbatches: [1, 2]  # as YAML", "other.yaml"
    ).digest(0)
    assert digest != sweep_of(lists).digest(1)
    assert digest != sweep_of(lists | {"batches": [2, 1]}).digest(0)


def test_lists_have_the_defaults_and_meanings_of_the_options_of_predict(sweep_of):
    options = {f.name: f for f in fields_of(PredictQuestion)}
    written = SweepFile.model_fields
    lists = sweep_of({"models": ["gpt2"]}).lists
    for key, name in (
        ("devices", "device"),
        ("engines", "engine"),
        ("tensor_parallel", "tp"),
        ("batches", "batch"),
        ("contexts", "context"),
    ):
        usual = options[name].written(options[name].default)
        assert ",".join(map(str, getattr(lists, key))) == str(usual)
        assert written[key].description == options[name].row.meaning
    assert written["models"].description == options["model"].row.meaning


def test_what_processes_are_told_is_the_sweep_itself(sweep_of, tmp_path):
    for lists in ({"batches": [2]}, {"rates": [1, 2.5], "prompt_tokens": [9], "slo_tpot": 40}):
        sweep = sweep_of({"models": ["llama-3.1-8b"], **lists})
        task = SweepTask(lists=sweep.lists, folder=tmp_path, seed=0)
        assert SweepTask.model_validate_json(task.model_dump_json()).sweep == sweep
