"""A file starts the weights that were priced, or names a checkpoint that nobody can start unread."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.exporters.registry import ENGINES, export
from costmodel.architectures.library import hub_id, load_model
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.passes.formats import recipe_names, recipe_parts
from hardware_profiles.errors import InputError

ASKED = [
    ("llama-3.3-70b", "nvfp4", "PATH_OF_THE_NVFP4_CHECKPOINT"),
    ("llama-3.1-8b", "awq", "PATH_OF_THE_AWQ_CHECKPOINT"),
    ("qwen3-8b", "q4_k_m", "PATH_OF_THE_Q4_K_M_CHECKPOINT"),
    ("qwen3-8b", "int4-g128-zp", "PATH_OF_THE_INT4_G128_ZP_CHECKPOINT"),
    ("gpt-oss-120b", "bf16", "PATH_OF_THE_BF16_CHECKPOINT"),
    ("deepseek-v3", "bf16", "PATH_OF_THE_BF16_CHECKPOINT"),
]
HELD = [
    ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "fp8"),
    ("hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4", "awq"),
    ("deepseek-ai/DeepSeek-V3", "fp8"),
    ("openai/gpt-oss-120b", "mxfp4"),
]
MAKES_FP8 = {"vllm", "sglang"}  # of a checkpoint in 16 bits, at load


def exported(engine, model, dtype):
    where = DeploymentNames(model=model, dtype=dtype)
    return export(DecodingConfiguration(deployment=where), engine)


def served(result):
    """The words of the files, without comments."""
    lines = "\n".join(result.files.values()).splitlines()
    return " ".join(line for line in lines if not line.startswith("#"))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("model", "dtype", "mark"), ASKED)
def test_another_format_than_the_published_one_is_a_mark_that_starts_nothing(
    engine, model, dtype, mark
):
    result = exported(engine, model, dtype)
    assert mark in served(result) and hub_id(model) not in served(result)
    (told,) = (note for note in result.notes if note.startswith(f"replace {mark} "))
    assert hub_id(model) in told and dtype in told


@pytest.mark.parametrize("engine", ENGINES)
def test_eight_bits_are_made_at_load_where_an_engine_can_and_stored_elsewhere(engine):
    words = served(exported(engine, "llama-3.1-8b", "fp8"))
    made = "--quantization fp8" in words
    assert made == (engine in MAKES_FP8)
    assert made == (hub_id("llama-3.1-8b") in words) == ("PATH_OF_THE_FP8" not in words)


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "llama.cpp"])
@pytest.mark.parametrize(("model", "dtype"), HELD)
def test_a_checkpoint_that_is_stored_so_is_started_as_it_is(engine, model, dtype):
    result = exported(engine, model, dtype)
    assert model in served(result) and "CHECKPOINT" not in served(result)
    # engines refuse a flag of another quantiser than the checkpoint names
    assert "--quantization" not in served(result)
    assert not any("stored so" in note for note in result.notes)


def test_a_checkpoint_of_unknown_shapes_is_kept_and_its_format_is_said():
    result = exported("vllm", "org/unknown", "awq")
    assert "org/unknown" in served(result) and any("stored so" in note for note in result.notes)


@given(
    st.sampled_from(ENGINES),
    st.sampled_from(["llama-3.1-8b", "gpt-oss-20b", "deepseek-v3", "qwen3-8b"]),
    st.sampled_from(recipe_names()),
)
def test_no_file_starts_a_published_checkpoint_in_another_format_than_was_priced(
    engine, model, dtype
):
    try:
        words = served(exported(engine, model, dtype))
    except InputError:
        return
    target = load_model(model)
    if hub_id(model) not in words:
        assert "PATH_OF" in words
        return
    flagged = {"fp8": "--quantization fp8", "fp32": "float32", "fp16": "float16"}
    same = recipe_parts(dtype, target) == recipe_parts(target.dtype, target)
    eight_bits = dtype.startswith("fp8") and target.dtype.startswith("fp8")
    assert same or eight_bits or flagged[dtype] in words
