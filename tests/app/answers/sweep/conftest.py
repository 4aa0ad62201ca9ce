"""Sweeps of a few cells."""

import json

import pytest

from app.answers.sweep.file import read_sweep

PLAIN = {
    "models": ["llama-3.1-8b", "qwen3-8b", "llama-3.2-1b", "qwen3-0.6b", "gemma-2-9b"],
    "devices": ["h100-sxm", "l4", "a10g", "h200-sxm", "a100-sxm-80", "l40s", "t4", "mi300x"],
    "batches": [4],
    "contexts": [512],
}
"""Forty groups of one cell: three shards, without anything drafted."""
DRAFTED = {
    "models": ["llama-3.1-8b", "deepseek-v3"],
    "devices": ["h100-sxm"],
    "engines": ["vllm", "llama.cpp"],
    "tensor_parallel": [1, 3],
    "drafters": ["eagle-3", "n-gram:0.5", "medusa:length=2.5"],
    "traces": ["catalogue/smollm2-135m--hydra--greedy"],
    "batches": [1, 64],
    "contexts": [1024, 30_000],
}


@pytest.fixture
def sweep_of(tmp_path):
    """A sweep of lists: (lists, name of the file)."""

    def read(lists, name="sweep.json"):
        file = tmp_path / name
        file.write_text(lists if isinstance(lists, str) else json.dumps(lists), encoding="utf-8")
        return read_sweep(file)

    return read
