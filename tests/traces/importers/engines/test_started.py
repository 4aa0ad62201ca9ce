"""What engines say of their cache and limits when they start, read from their own lines."""

import json

import pytest

from hardware_profiles.errors import InputError
from traces.importers.engines.ran import EngineFacts
from traces.importers.engines.started import read_engine_facts

VLLM = """(APIServer pid=1) INFO 07-07 09:29:14 [api_utils.py:273] non-default args: {'seed': 1, 'max_num_seqs': 64}
(EngineCore pid=2) INFO 07-07 09:29:40 [vllm.py:590] Chunked prefill is enabled with max_num_batched_tokens=2048.
(EngineCore pid=2) INFO 07-07 09:30:08 [gpu_worker.py:508] Available KV cache memory: 56.95 GiB
(EngineCore pid=2) INFO 07-07 09:30:08 [kv_cache_utils.py:2146] GPU KV cache size: 466,560 tokens
"""
BEFORE = "INFO 02-20 00:01:02 kv_cache_utils.py:522] # GPU blocks: 127626\n"
SGLANG = (
    "[2025-12-18 22:43:05 TP0] KV Cache is allocated. #tokens: 60000, KV size: 0.13 GB,"
    " layout=(60001, 1, 576)\n[2026-06-28 15:16:45] max_total_num_tokens=2086558,"
    " chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=33,"
    " context_len=256000, available_gpu_mem=17.22 GB\n"
)
TENSORRT = """[TensorRT-LLM][INFO] Max KV cache blocks per sequence: 65, tokens per block=32, primary blocks=116617
[TensorRT-LLM][INFO] Number of tokens per block: 32.
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 78.30 GiB for max tokens in paged KV cache (3731744).
"""


@pytest.fixture
def told(tmp_path):
    def read(text):
        file = tmp_path / "engine.log"
        file.write_text(text if isinstance(text, str) else json.dumps(text))
        return read_engine_facts(file)

    return read


@pytest.mark.parametrize(
    ("text", "facts", "tokens"),
    [
        (VLLM, EngineFacts(cache_tokens=466_560, token_budget=2048, max_requests=64), 466_560),
        (BEFORE, EngineFacts(cache_blocks=127_626), 127_626 * 16),
        (
            SGLANG,
            EngineFacts(cache_tokens=2_086_558, token_budget=8192, max_requests=33),
            2_086_558,
        ),
        (
            TENSORRT,
            EngineFacts(cache_tokens=3_731_744, cache_blocks=116_617, block_tokens=32),
            3_731_744,
        ),
        (
            {
                "kv_cache": {"num_gpu_blocks": 2500, "block_size": 32},
                "resolved_config": {
                    "scheduler_config": {"max_num_seqs": 128, "max_num_batched_tokens": 2048}
                },
            },
            EngineFacts(cache_blocks=2500, block_tokens=32, max_requests=128, token_budget=2048),
            80_000,
        ),
        (
            {
                "max_total_num_tokens": 5000,
                "chunked_prefill_size": -1,
                "internal_states": [{"max_running_requests": 7}],
            },
            EngineFacts(cache_tokens=5000, max_requests=7),
            5000,
        ),
    ],
)
def test_lines_of_engines_are_read(told, text, facts, tokens):
    assert told(text) == facts
    assert facts.tokens(16) == tokens


def test_blocks_and_tokens_of_one_engine_agree(told):
    facts = told(TENSORRT)
    assert facts.cache_blocks * facts.block_tokens == facts.cache_tokens


def test_ranks_may_differ_by_blocks_and_starts_may_not(told):
    ranks = "GPU KV cache size: 1,000,000 tokens\nGPU KV cache size: 990,016 tokens\n"
    assert told(ranks).cache_tokens == 990_016
    with pytest.raises(InputError, match="several sizes"):
        told("GPU KV cache size: 1,000,000 tokens\nGPU KV cache size: 500,000 tokens\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no line"),
        ("INFO all is well\n", "holds no line"),
        ({"num_gpu_blocks": 0}, "whole number"),
        ({"num_gpu_blocks": "many"}, "whole number"),
        ({"max_num_seqs": True}, "whole number"),
        ("{", "must be JSON"),
    ],
)
def test_what_tells_nothing_is_refused(told, text, said):
    with pytest.raises(InputError, match=said):
        told(text)
