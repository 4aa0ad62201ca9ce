"""An untrained head has the widths that predictions price, and only a plan with synthetic
acceptance gets one."""

import json

import pytest

from app.exporters.registry import export, write_export
from app.exporters.untrained_head import HEAD_FILE, untrained_head
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.drafters.stage import build_stage
from costmodel.method_library import load_method

pytestmark = pytest.mark.heavy


def plan(model, method="eagle-3", **changes):
    settings = {"draft_tokens": 3, "acceptance_by_depth": (0.8, 0.6, 0.5)} | changes
    return DecodingConfiguration(deployment=DeploymentNames(model=model), method=method, **settings)


@pytest.mark.parametrize("model", ["qwen2.5-7b", "mistral-7b-v0.3", "llama-3.2-3b", "mixtral-8x7b"])
def test_the_head_is_the_one_that_is_priced(tmp_path, model):
    """Read back as a model it has the priced layer, and the head's own parameters but for the fused
    inputs."""
    (tmp_path / "config.json").write_text(untrained_head(plan(model)))
    read, target = load_model(tmp_path), load_model(model)
    priced = build_stage(
        load_method("eagle-3").draft[0], target, model=None, exit_layer=None
    ).architecture
    content = json.loads((tmp_path / "config.json").read_text())
    assert (read.hidden, read.vocab, read.layers) == (target.hidden, target.vocab, 1)
    block, meant = read.blocks[0][0], priced.blocks[0][0]
    assert block.feed_forward == meant.feed_forward
    for name in ("heads", "kv_heads", "head_dim"):
        assert getattr(block.attention, name) == getattr(meant.attention, name)
    assert content["draft_vocab_size"] == priced.vocab <= 32_000


@pytest.mark.parametrize(
    ("engine", "folder"), [("vllm", '"model":"draft-head"'), ("sglang", '"$here"/draft-head')]
)
def test_a_plan_without_a_drafter_gets_one_of_random_weights(tmp_path, engine, folder):
    result = export(plan("mistral-7b-v0.3"), engine, synthetic=True)
    write_export(result, tmp_path)
    assert json.loads((tmp_path / HEAD_FILE).read_text())["architectures"] == [
        "LlamaForCausalLMEagle3"
    ]
    (text,) = (text for name, text in result.files.items() if name.endswith(".sh"))
    assert folder in text and "PATH_OF_THE_DRAFT" not in text and "no device has tried it" in text
    assert "dummy" in text


def test_transformers_reads_the_config(tmp_path):
    transformers = pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text(untrained_head(plan("mistral-7b-v0.3")))
    found = transformers.AutoConfig.from_pretrained(tmp_path)
    assert (found.model_type, found.num_hidden_layers, found.draft_vocab_size) == (
        "llama",
        1,
        32_000,
    )


def test_everything_else_keeps_its_drafter_or_its_mark(tmp_path):
    assert HEAD_FILE not in export(plan("mistral-7b-v0.3"), "vllm").files
    published = export(plan("llama-3.1-8b"), "vllm", synthetic=True)
    assert HEAD_FILE not in published.files and "yuhuili" in published.command
    assert (
        HEAD_FILE
        not in export(plan("mistral-7b-v0.3", draft_model="my/head"), "vllm", synthetic=True).files
    )
    for model in ("deepseek-v3", "org/unknown"):
        result = export(plan(model), "vllm", synthetic=True)
        assert HEAD_FILE not in result.files and "PATH_OF_THE_DRAFT_MODEL" in result.command
    assert untrained_head(plan("mistral-7b-v0.3", method="medusa")) is None
