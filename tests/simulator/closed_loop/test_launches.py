"""Launches behind rows of tables: batches sized by a generator, lengths varied by a benchmark, else defaults."""

import pytest

from costmodel.engine_library import load_engine
from hardware_profiles.loader import load_device
from simulator.closed_loop.launches import launched

H100 = load_device("h100-sxm")
ROW = {"users": 16, "batch": None, "prompt_tokens": 1024, "output_tokens": 1024, "image": None}


def launch(engine="vllm", **changes):
    return launched(load_engine(engine).on(H100), **(ROW | changes))


@pytest.mark.parametrize("engine", ["sglang", "tensorrt-llm", "vllm"])
def test_rows_that_say_nothing_keep_the_defaults(engine):
    found = launch(engine)
    assert found.engine == load_engine(engine).on(H100)
    assert found.length_spread == 0.0


@pytest.mark.parametrize("engine", ["vllm", "tensorrt-llm"])
@pytest.mark.parametrize("image", [None, "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.8.0"])
def test_a_stated_batch_means_batches_sized_by_the_prompt(engine, image):
    found = launch(engine, batch=64, image=image)
    assert found.engine.scheduling.batch_tokens == 64 + 1024 + 1500
    assert found.engine.scheduling.chunks == load_engine(engine).scheduling.chunks
    assert found.length_spread == 0.0


def test_the_generator_leaves_tensorrt_llm_less_memory():
    assert launch("trtllm", batch=8).engine.memory.ratio == 0.8
    assert launch("vllm", batch=8).engine.memory.ratio == load_engine("vllm").memory.ratio


def test_sglang_fills_its_limit_with_whole_prompts_below_a_chunk():
    found = launch("sglang", batch=8, prompt_tokens=2048).engine.scheduling
    assert (found.batch_tokens, found.chunks) == (3548, False)
    assert launch("sglang", batch=8, prompt_tokens=8000).engine == load_engine("sglang").on(H100)


@pytest.mark.parametrize("image", ["vllm/vllm-openai:v0.18.0", "vllm/vllm-openai"])
def test_an_own_image_with_benchmark_lengths_means_lengths_that_vary(image):
    found = launch(image=image, batch=16)
    assert found.length_spread == 0.2
    usual = found.engine.scheduling
    assert (usual.requests, usual.batch_tokens, usual.overlaps) == (16, 8192, True)
    assert launch(image=image, batch=16, prompt_tokens=2000).engine == load_engine("vllm").on(H100)
    assert launch(image=image, batch=16, prompt_tokens=2000).length_spread == 0.0
    assert launch("sglang", image="lmsysorg/sglang:v0.5.8").engine.scheduling.requests == 16
