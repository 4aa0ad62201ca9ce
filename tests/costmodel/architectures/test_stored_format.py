"""Number formats of quantised checkpoints, as their makers' tools write them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.hf.config import read_config, read_hf_config
from costmodel.passes.precision import bytes_per_value, precision
from tests.costmodel.architectures.family_samples import sample


def packed(**weights):
    return {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": weights}},
    }


FORMATS = [
    ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block", "fp8"),
    ({"quant_method": "fbgemm_fp8"}, "fp8", "fbgemm_fp8"),
    ({"quant_method": "mxfp4"}, "mxfp4", "mxfp4"),
    ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4-g128-zp", "awq"),
    ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "int8", "gptq"),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4-g64", "bitsandbytes"),
    ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8", "bitsandbytes"),
    ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "fp4", "modelopt"),
    ({"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}, "fp8", "FP8"),
    (packed(num_bits=4, type="int", group_size=32), "int4-g32", "compressed-tensors"),
    (
        packed(num_bits=4, type="int", group_size=32, symmetric=False),
        "int4-g32-zp",
        "compressed-tensors",
    ),
    (packed(num_bits=4, type="float", group_size=32), "fp4-g32", "compressed-tensors"),
    (packed(num_bits=8, type="float"), "fp8", "compressed-tensors"),
    (packed(num_bits=4, type="float", group_size=16), "fp4", "compressed-tensors"),
    (packed(num_bits=8, type="int"), "int8", "compressed-tensors"),
    ({"quant_method": "aqlm"}, "bf16", "aqlm?"),
    ({"quant_method": "awq"}, "bf16", "awq?"),
]


def reading(quantisation):
    config = sample("llama") | {"quantization_config": quantisation}
    return read_config(config, name="any", file="config.json", source="test")


@pytest.mark.parametrize(("quantisation", "dtype", "quantiser"), FORMATS)
def test_formats_are_those_that_their_quantiser_writes(quantisation, dtype, quantiser):
    found = reading(quantisation)
    assert (found.architecture.dtype, found.quantiser) == (dtype, quantiser)
    form = precision(found.architecture.dtype)
    assert 0.5 <= form.of("experts").weight_bytes <= form.weight_bytes <= 2


def test_the_file_of_modelopt_beside_a_config_is_read(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(sample("llama")))
    assert read_hf_config(tmp_path / "config.json").architecture.dtype == "bf16"
    beside = {
        "producer": {"name": "modelopt"},
        "quantization": {"quant_algo": "NVFP4", "group_size": 16},
    }
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside))
    assert read_hf_config(tmp_path / "config.json").architecture.dtype == "fp4"


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(("awq", "NVFP4", "float", 4, 8)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    "quant_method",
                    "quant_algo",
                    "bits",
                    "group_size",
                    "config_groups",
                    "group_0",
                    "weights",
                    "num_bits",
                    "type",
                )
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


KEYS = (
    "quant_method",
    "quant_algo",
    "bits",
    "group_size",
    "config_groups",
    "ignore",
    "weight_block_size",
)


@given(st.dictionaries(st.sampled_from(KEYS), JUNK))
def test_whatever_a_file_says_gives_a_format_that_can_be_priced(quantisation):
    assert precision(reading(quantisation).architecture.dtype).weight_bytes > 0


KIMI = [
    "lm_head",
    "re:.*self_attn.*",
    "re:.*shared_experts.*",
    r"re:.*mlp\.(gate|up|gate_up|down)_proj.*",
]


def of_experts(ignored, key="ignore", **more):
    table = packed(num_bits=4, type="int", group_size=32) | {key: ignored} | more
    config = sample("qwen3_moe") | {"quantization_config": table}
    return read_config(config, name="any", file="config.json", source="test").architecture.dtype


@pytest.mark.parametrize(
    "ignored",
    [
        KIMI,
        ["*self_attn*", "*mlp.gate_proj", "lm_head"],
        ["model.layers.5.self_attn.q_proj", "model.layers.5.mlp.gate_proj"],
    ],
)
@pytest.mark.parametrize("key", ["ignore", "modules_to_not_convert", "exclude_modules"])
def test_what_a_quantiser_left_out_keeps_the_format_of_the_config(ignored, key):
    assert of_experts(ignored, key) == "bf16/experts=int4-g32"


def test_attention_alone_left_out_is_a_mix_of_the_other_matrices():
    dtype = of_experts(["lm_head", "re:.*self_attn.*"])
    form = precision(dtype)
    assert form.of("experts").weights == "int4-g32"
    assert bytes_per_value("int4-g32") < form.weight_bytes < 2
    assert (
        of_experts(["lm_head", "model.layers.0.self_attn.o_proj"]) == "int4-g32"
    )  # single modules do not decide


@pytest.mark.parametrize(
    "pattern", ["re:(.*)*x", "re:[a-z]+", "re:((a|b)+)+$", "re:", "", "re:" + "(a|b)" * 90]
)
def test_expressions_of_other_kinds_match_nothing_and_are_never_run(pattern):
    assert of_experts([pattern, 3, None]) == "int4-g32"
