"""Constants are found again from answers that were made with them, and others are not touched."""

import pytest

from costmodel.engine_library import load_engine
from hardware_profiles.errors import InputError
from simulator.closed_loop.constants import NAMES, engine_of, shipped, with_constants
from simulator.closed_loop.fit import fit
from simulator.closed_loop.table_rows import answer_rows

ROW = {
    "model_path": "meta-llama/Llama-3.1-8B-Instruct",
    "system": "h100_sxm",
    "backend": "trtllm",
    "backend_version": "1.0.0rc3",
    "tp_size": 4,
    "osl": 64,
}


def rows(constants):
    """Runs as a world with these constants would have measured them."""
    asked = [
        ROW | {"isl": isl, "concurrency": 4, "batch_size": 4, "tp_size": 1} for isl in (512, 4096)
    ]
    answers = answer_rows(asked, file="t", constants=constants)
    return [
        row | {"silicon_tpot_ms": answer.tpot_ms, "silicon_ttft_ms": answer.ttft_ms}
        for row, answer in zip(asked, answers, strict=True)
    ]


@pytest.mark.heavy
def test_a_ratio_that_differs_is_found_again():
    truth = shipped() | {"sustained_ratio": shipped()["sustained_ratio"] * 0.85}
    found = fit(rows(truth))
    assert found["sustained_ratio"] == pytest.approx(truth["sustained_ratio"], rel=0.06)
    assert found["vllm.cut_bytes"] == shipped()["vllm.cut_bytes"]  # no run of vLLM was there


def test_answers_with_the_shipped_constants_are_the_usual_ones():
    asked = [ROW | {"isl": 512, "concurrency": 4}]
    assert answer_rows(asked, file="t", constants=shipped()) == answer_rows(asked, file="t")


@pytest.mark.parametrize("name", NAMES)
def test_every_constant_moves_its_engine_and_no_other(name):
    changed = shipped() | {name: shipped()[name] * 0.9}
    for engine in ("vllm", "sglang", "tensorrt-llm"):
        same = with_constants(load_engine(engine), changed) == load_engine(engine)
        assert same == (engine_of(name) not in (None, engine))


@pytest.mark.parametrize(
    "row", [{"backend": "trtllm"}, ROW, ROW | {"model_path": "openai/gpt-oss-120b"}]
)
def test_rows_that_cannot_be_fitted_to_are_refused(row):
    with pytest.raises(InputError):
        fit([{"model_path": "x", **row}])
