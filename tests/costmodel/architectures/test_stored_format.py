"""Number formats of quantised checkpoints, as their makers' tools write them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.hf.config import read_config, read_hf_config
from costmodel.passes.precision import bytes_per_value
from tests.costmodel.architectures.family_samples import sample


def packed(**weights):
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}}


FORMATS = [
    ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", "fp8"),
    ({"quant_method": "fbgemm_fp8"}, "fp8", "fbgemm_fp8"),
    ({"quant_method": "mxfp4"}, "fp4-g32", "mxfp4"),
    ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4-g128", "awq"),
    ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "int8", "gptq"),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4", "bitsandbytes"),
    ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8", "bitsandbytes"),
    ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "fp4", "modelopt"),
    ({"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}, "fp8", "FP8"),
    (packed(num_bits=4, type="int", group_size=32), "int4-g32", "compressed-tensors"),
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
    assert 0.5 <= bytes_per_value(found.architecture.dtype) <= 2


def test_the_file_of_modelopt_beside_a_config_is_read(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(sample("llama")))
    assert read_hf_config(tmp_path / "config.json").architecture.dtype == "bf16"
    beside = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "group_size": 16}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside))
    assert read_hf_config(tmp_path / "config.json").architecture.dtype == "fp4"


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(("awq", "NVFP4", "float", 4, 8)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ("quant_method", "quant_algo", "bits", "group_size", "config_groups", "group_0", "weights", "num_bits", "type")
    ), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(("quant_method", "quant_algo", "bits", "group_size", "config_groups")), JUNK))
def test_whatever_a_file_says_gives_a_format_that_can_be_priced(quantisation):
    assert bytes_per_value(reading(quantisation).architecture.dtype) > 0
