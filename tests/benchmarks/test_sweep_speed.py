"""A sweep, against asking the same cells one by one as `predict` and `optimize` do."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from app.answers.sweep.evaluate import SweepEvaluation
from app.answers.sweep.file import Sweep, SweepFile
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.optimizers.drafters.named_drafters import drafter_source
from costmodel.optimizers.recommend import recommend

MODELS, DEVICES, DRAFTERS = (
    ("llama-3.1-8b", "qwen3-32b"),
    ("h100-sxm", "b200-sxm"),
    ("eagle-3", "n-gram:0.5"),
)
BATCHES, CONTEXTS = (
    (1, 4, 16, 64, 128, 256),
    (512, 1024, 2048, 4096, 8192, 12288, 16384, 24576, 32768, 49152),
)


def computed(**lists):
    """Every row of a sweep, by an evaluation that has remembered nothing."""
    evaluation = SweepEvaluation(
        Sweep(lists=SweepFile(models=MODELS, devices=DEVICES, **lists), folder=Path()), 0
    )
    return sum(evaluation.shard(shard).num_rows for shard in range(evaluation.cells.shards))


def one_by_one():
    """One cell of every model, device and drafter."""
    for model in MODELS:
        for device in DEVICES:
            question = DecodingConfiguration(deployment=DeploymentNames(model=model, device=device))
            for drafter in DRAFTERS:
                recommend(
                    question, [drafter_source(drafter, model=model)], batches=[1], contexts=[1024]
                )


def test_cells_per_second(benchmark, cpu_s, aim):
    def grid():
        return computed(drafters=DRAFTERS, batches=BATCHES, contexts=CONTEXTS)

    cells = benchmark.pedantic(grid, rounds=1)
    assert cells == 8 * 60
    rate, alone = cells / cpu_s(grid, rounds=3), 8 / cpu_s(one_by_one, rounds=3)
    print(f"\n{rate:.0f} cells per CPU second, {rate / alone:.0f} times one by one")
    aim("cells per CPU second", rate, least=84)  # 10,000 in a minute on two cores
    aim("times one by one", rate / alone, least=10)


def test_groups_of_one_cell(benchmark, cpu_s, aim):
    """The worst shape: nothing is shared by batches and contexts."""

    def scattered():
        return computed(
            drafters=DRAFTERS,
            batches=(8,),
            contexts=(1024,),
            engines=("vllm", "sglang", "tensorrt-llm"),
        )

    cells = benchmark.pedantic(scattered, rounds=1)
    rate = cells / cpu_s(scattered, rounds=3)
    print()
    aim("groups of one cell per CPU second", rate, least=84)  # 10,000 in a minute on two cores


RATES, LENGTHS = (0.5, 1, 2, 4, 8, 12, 16, 24), {"output_tokens": ("uniform:128:384",)}


def test_loads_per_second(benchmark, cpu_s, aim):
    """Cells under a load, beside one that nothing is remembered for."""

    def grid():
        return computed(drafters=DRAFTERS, rates=RATES, slo_ttft=500, slo_tpot=30, **LENGTHS)

    def one_by_one():
        for model in MODELS:
            lists = {"models": (model,), "devices": DEVICES[:1], "drafters": DRAFTERS[:1]}
            file = SweepFile(**lists, rates=(4,), **LENGTHS)
            SweepEvaluation(Sweep(lists=file, folder=Path()), 0).shard(0)

    cells = benchmark.pedantic(grid, rounds=1)
    assert cells == 8 * len(RATES)
    rate, alone = cells / cpu_s(grid, rounds=3), len(MODELS) / cpu_s(one_by_one, rounds=3)
    print(f"\n{rate:.0f} loads per CPU second, {rate / alone:.1f} times one by one")
    aim("loads per CPU second", rate, least=20)


MIXED = {
    "models": ["llama-3.1-8b", "qwen3-32b", "llama-3.3-70b", "qwen3-30b-a3b", "gpt-oss-20b"],
    "devices": ["h100-sxm", "h200-sxm", "b200-sxm", "mi300x", "l4"],
    "engines": ["vllm", "sglang"],
    "tensor_parallel": [1, 2, 4, 8],
    "drafters": list(DRAFTERS),
    "batches": [1, 4, 16, 64, 256],
    "contexts": [1024, 4096, 8192, 16384, 32768],
}


@pytest.mark.heavy
def test_ten_thousand_cells_of_a_file(benchmark, aim, tmp_path):
    """The whole command in two processes, on lists as one writes them; a minute of two cores is 120
    CPU seconds."""
    written, out = tmp_path / "lists.yaml", tmp_path / "cells.parquet"
    written.write_text(json.dumps(MIXED))  # which is YAML too
    answer = "import sys; from app.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [
        sys.executable,
        "-c",
        answer,
        "sweep",
        written,
        "--out",
        out,
        "--workers",
        "2",
        "--quiet",
    ]
    before = os.times()
    benchmark.pedantic(subprocess.run, args=(command,), kwargs={"check": True}, rounds=1)
    after = os.times()
    assert pq.read_metadata(out).num_rows == 10_000
    cpu_s = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    print()
    aim("CPU seconds of 10,000 cells", cpu_s, most=120)
    aim(
        "largest process, MB",
        resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
        most=600,
    )


def test_memory_of_a_shard(benchmark, aim):
    """What a worker holds beside its libraries: the rows and arrays of one shard."""
    import tracemalloc

    lists = SweepFile(
        models=MODELS[:1],
        drafters=DRAFTERS[:1],
        batches=(*range(1, 33),),
        contexts=(*range(1, 161),),
    )
    evaluation = SweepEvaluation(Sweep(lists=lists, folder=Path()), 0)
    benchmark.pedantic(evaluation.shard, args=(0,), rounds=1)
    tracemalloc.start()
    assert evaluation.shard(1).num_rows == 512
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    aim("peak of a shard of 512 cells, MB", peak / 1e6, most=64)
