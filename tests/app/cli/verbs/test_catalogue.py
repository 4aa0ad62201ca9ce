"""What a config holds, a device file to fill in, and ids and families that are named in place of
shipped models."""

import json
import tomllib

import pytest

from hardware_profiles.loader import device_names, load_device
from hardware_profiles.template import device_template

GRANITE = {
    "model_type": "granite",
    "hidden_size": 4096,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 12800,
    "vocab_size": 49159,
    "tie_word_embeddings": True,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}
SPECULATORS = {
    "architectures": ["Eagle3Speculator"],
    "speculators_model_type": "eagle3",
    "draft_vocab_size": 32000,
    "target_hidden_size": None,
    "transformer_layer_config": {"model_type": "llama", "num_hidden_layers": 1},
}
STATED = (
    "predict",
    "--method",
    "eagle-3",
    "--acceptance",
    "0.7",
    "--batch",
    "1",
    "--draft-tokens",
    "0,3",
)


def written(folder, config, name="config.json"):
    path = folder / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(json.dumps(config))
    return str(path)


def test_a_config_is_shown_with_its_parts_and_what_was_assumed(rooftree, tmp_path):
    path = written(tmp_path, GRANITE)
    answer = rooftree("models", "inspect", path, "--json").answer
    model = answer["model"]
    assert (model["layers"], model["model_type"], model["dtype"], answer["draft_head"]) == (
        40,
        "granite",
        "bf16",
        None,
    )
    assert model["parameters"] == sum(model["parameters_by_part"].values()) == 8_170_864_640
    assert (
        model["kv_bytes_per_token"]["bf16"]
        == 2 * 2 * 40 * 8 * 128
        == 2 * model["kv_bytes_per_token"]["fp8"]
    )
    assert model["weight_bytes"] == 2 * model["parameters"]
    shown = rooftree("models", "inspect", path)
    assert "8.171 billion parameters" in shown.out and "163.8 kB a token" in shown.out
    del GRANITE["max_position_embeddings"]
    assumed = rooftree("models", "inspect", written(tmp_path, GRANITE), "--json").answer["model"][
        "assumed"
    ]
    assert assumed["max_position_embeddings"] == 2048
    GRANITE["max_position_embeddings"] = 131072


def test_where_a_shipped_model_was_read_is_said_and_what_was_not_opened(rooftree, tmp_path):
    shown = " ".join(rooftree("models", "inspect", "falcon-h1-34b").out.split())
    assert (
        "feed-forward width from memory, no copy was opened" in shown
        and "not opened: 33.6B" in shown
    )
    card = rooftree("models", "inspect", "zai-org/GLM-4.6", "--json").answer["model"]["card"]
    assert (
        card["official_parameters"] == 355e9
        and "GLM-4.7" in card["config_source"]
        and "202,752" in card["note"]
    )
    assert (
        rooftree("models", "inspect", written(tmp_path, GRANITE), "--json").answer["model"]["card"]
        is None
    )


@pytest.mark.parametrize(
    "name", ["llama-3.1-8b", "zamba2-7b", "glm-5", "gemma-4-26b-a4b", "mamba2-2.7b", "gpt2"]
)
def test_parts_of_any_model_sum_to_the_whole(rooftree, name):
    model = rooftree("models", "inspect", name, "--json").answer["model"]
    assert sum(model["parameters_by_part"].values()) == model["parameters"]
    assert rooftree("models", "inspect", name).code == 0


def test_quantisation_prediction_layers_and_ids_are_said(rooftree, tmp_path):
    shown = rooftree("models", "inspect", "deepseek-v3").out
    assert "quantised by fp8" in shown and "multi-token prediction: 1 layer" in shown
    shown = rooftree("models", "inspect", "nvidia/Llama-3.1-8B-Instruct-NVFP4").out
    assert "is read as llama-3.1-8b with weights in fp4" in shown
    odd = GRANITE | {"quantization_config": {"quant_method": "aqlm"}}
    assert (
        "its number format is not known, bf16 is taken"
        in rooftree("models", "inspect", written(tmp_path, odd)).out
    )


def test_draft_heads_are_named(rooftree, tmp_path):
    answer = rooftree("models", "inspect", written(tmp_path, SPECULATORS), "--json").answer
    assert answer["model"] is None
    assert (answer["draft_head"]["kind"], answer["draft_head"]["layers"]) == ("EAGLE-3", 1)
    assert (
        "EAGLE-3 head, 1 layer(s), drafts among 32,000 tokens"
        in rooftree("models", "inspect", written(tmp_path, SPECULATORS)).out
    )
    head = rooftree("models", "inspect", written(tmp_path, GRANITE | {"num_hidden_layers": 1})).out
    assert "may be a head of EAGLE" in head and "1 layers of width 4,096" in head


def test_everything_that_is_wrong_is_said_on_lines_of_its_own(rooftree, tmp_path):
    bad = GRANITE | {"hidden_size": "wide", "vocab_size": -1}
    refused = rooftree("models", "inspect", written(tmp_path, bad))
    assert refused.code == 2
    assert refused.err.count("\n") == 3
    assert (
        "2 things are wrong" in refused.err
        and "hidden_size: must be" in refused.err
        and "got -1" in refused.err
    )


def test_a_new_family_is_read_as_one_that_is_named(rooftree, tmp_path):
    path = written(tmp_path, GRANITE | {"model_type": "granite_next"})
    refused = rooftree(*STATED, "--model", path, "--device", "rtx-5090")
    assert refused.code == 2 and "--as llama" in refused.err
    rows = rooftree(
        *STATED, "--model", path, "--as", "llama", "--device", "rtx-5090", "--json"
    ).answer["predictions"]
    same = rooftree(
        *STATED, "--model", f"{path} as llama", "--device", "rtx-5090", "--json"
    ).answer["predictions"]
    known = written(tmp_path, GRANITE, "known/config.json")
    plain = rooftree(*STATED, "--model", known, "--device", "rtx-5090", "--json").answer[
        "predictions"
    ]
    for one, two, three in zip(rows, same, plain, strict=True):
        assert one["step_s"] == two["step_s"] == three["step_s"]
    assert "family llama" in rooftree("models", "inspect", path, "--as", "llama").out


def test_an_id_with_a_suffix_answers_and_says_how_it_was_read(rooftree):
    words = (*STATED, "--device", "h100-sxm", "--model")
    asked = rooftree(*words, "RedHatAI/Llama-3.1-8B-Instruct-FP8-dynamic", "--json")
    assert "is read as llama-3.1-8b with weights in fp8" in asked.err
    stated = rooftree(*words, "llama-3.1-8b", "--dtype", "fp8", "--json")
    assert stated.err == ""
    for named, said in zip(
        asked.answer["predictions"], stated.answer["predictions"], strict=True
    ):  # both have a scale per channel or tensor, and convert inputs as they come
        assert named["step_s"] == said["step_s"]
    assert rooftree(*words, "RedHatAI/Llama-3.1-8B-Instruct-FP8-dynamic", "--quiet").err == ""


@pytest.mark.parametrize("like", device_names())
def test_a_template_loads_as_it_is_and_equals_its_relative(like, tmp_path):
    path = tmp_path / "my-card.toml"
    path.write_text(device_template("my-card", like))
    made, relative = load_device(path), load_device(like)
    assert (made.name, made.kind, dict(made.peak_flops_per_s)) == (
        "my-card",
        relative.kind,
        relative.peak_flops_per_s,
    )
    for field in (
        "memory_bytes",
        "bandwidth_bytes_per_s",
        "processors",
        "price_usd_per_hour",
        "power_w",
    ):
        assert getattr(made, field) == getattr(relative, field)
    assert made.constants.gemm.launch_s == relative.constants.gemm.launch_s
    assert not made.calibrated
    assert all(each.kind == "assumed" for each in made.provenance.values())


def test_a_new_device_is_written_and_asked_about(rooftree, tmp_path):
    path = tmp_path / "my-card.toml"
    done = rooftree("devices", "new", "my-card", "--like", "rtx-5090", "--out", str(path))
    assert done.code == 0 and str(path) in done.out
    assert tomllib.loads(path.read_text())["name"] == "my-card"
    assert path.read_text().count("#") > 15
    assert rooftree("devices", str(path), "--json").answer["devices"][0]["name"] == "my-card"
    assert rooftree(*STATED, "--model", "llama-3.2-1b", "--device", str(path)).code == 0
    again = rooftree("devices", "new", "my-card", "--out", str(path))
    assert again.code == 2 and "exists already" in again.err


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("devices", "new"), "needs a name"),
        (("devices", "new", "My Card"), "lower case"),
        (("devices", "new", "mine", "--like", "h1000"), "unknown device 'h1000'; nearest"),
        (("devices", "l4", "t4"), "a second word follows `new` alone"),
        (("models", "inspect"), "what is to be inspected"),
        (("models", "gpt2", "opt-125m"), "a second word follows `inspect` or `cut` alone"),
        (
            ("models", "--layers", "3"),
            "belongs to `rooftree models inspect` or `cut`, got '--layers 3'",
        ),
        (
            ("models", "--fit-head"),
            "belongs to `rooftree models inspect` or `cut`, got '--fit-head'",
        ),
        (("models", "cut"), "which layers are to be kept"),
        (("models", "cut", "nowhere.gguf", "--layers", "3"), "must be a .gguf file"),
        (("models", "inspect", "nowhere.json"), "no such file"),
    ],
)
def test_what_cannot_be_done_is_said(rooftree, words, rule):
    refused = rooftree(*words)
    assert refused.code == 2 and rule in refused.err


def test_a_template_goes_to_the_screen_where_no_file_is_named(rooftree, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(rooftree("devices", "new", "mine").out)
    assert load_device(path).memory_bytes == load_device("h100-sxm").memory_bytes
    assert "[constants]" in rooftree("devices", "new", "mine", "--json").answer["template"]


def test_simulate_reads_a_new_family_as_one_that_is_named(rooftree, tmp_path):
    small = GRANITE | {
        "num_hidden_layers": 4,
        "hidden_size": 1024,
        "intermediate_size": 2048,
        "num_attention_heads": 8,
    }
    path = written(tmp_path, small | {"model_type": "granite_next"})
    known = written(tmp_path, small, "known/config.json")
    asked = (
        "--rate 2 --set requests.count=20 --set requests.prompt_tokens=64 --set"
        " requests.output_tokens=16 --json"
    )
    words = ("simulate", "--device", "l4", *asked.split())
    refused = rooftree(*words, "--model", path)
    assert refused.code == 2 and "--as llama" in refused.err
    named = rooftree(*words, "--model", f"{path} as llama").answer
    assert named["metrics"] == rooftree(*words, "--model", known).answer["metrics"]


@pytest.mark.model
def test_a_draft_model_is_cut_out_of_the_shipped_one_and_priced_by_its_file(rooftree, tmp_path):
    made = rooftree("models", "cut", "--layers", "0-3,29", "--out", tmp_path, "--json").answer
    assert (made["layers"], made["whole_layers"]) == ([0, 1, 2, 3, 29], 30)
    assert "first layers alone" in rooftree("models", "cut", "--layers", "0-3,29", "--fit-head").err
    model = made["inputs"]["model"]
    words = (
        "predict",
        "--model",
        model,
        "--method",
        "speculative-decoding",
        "--draft-tokens",
        "3",
        "--acceptance",
        "0.2",
        "--batch",
        "1",
        "--json",
    )
    [cut], [whole] = (
        rooftree(*words, "--draft", file).answer["predictions"] for file in (made["file"], model)
    )
    assert 0 < cut["breakdown_s"]["draft"] < 0.5 * whole["breakdown_s"]["draft"]
