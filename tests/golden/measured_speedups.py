"""Predicted against measured throughput of vLLM with EAGLE-3 and n-gram drafts, Llama-3.1-8B, one
H100, K = 3.

The rows were read off a published figure; the traces beside them come from the same models. No
constant of the cost model was chosen after seeing these rows: engine overheads come from
coefficients fitted by others on another data set.
"""

import csv
from collections import namedtuple
from pathlib import Path

import numpy as np

from costmodel.answers.estimate import estimate, intervals, throughput_speedup
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import from_replay
from traces.importers.formats import import_trace
from traces.replay.statistics import request_draws
from traces.replay.walk import replay_chain

Row = namedtuple("Row", "dataset method batch measured predicted low high")
METHODS = {"EAGLE-3": ("eagle-3", "eagle", None), "n-gram": ("n-gram", "ngram", 0.2)}


def measured_speedups(reference_data: Path) -> list[Row]:
    """All rows, predicted; the folder is that of the reference data."""
    folder = reference_data / "acceptance"
    found = []
    with (folder / "measured_speedup_llama31_8b_h100_vllm.csv").open() as file:
        measured = [row for row in csv.DictReader(file) if row["method"] in METHODS]
    for row in measured:
        slug, drafter, match_rate = METHODS[row["method"]]
        trace = import_trace(
            "specdecode-bench",
            folder / f"position_trace_llama31_8b_{row['dataset']}.json",
            drafter=drafter,
            **({} if match_rate is None else {"match_rate": match_rate}),
        )
        setting = build_setting(
            DecodingConfiguration(
                method=slug, deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm")
            )
        )
        found.append(_row(row, trace, setting))
    return found


def _row(row, trace, setting):
    generator = np.random.default_rng(0)
    draws = request_draws(trace.prompt_kinds, generator=generator)
    accepted = from_replay(replay_chain(trace, int(row["k"])), draws)
    lengths = {
        "prompt_tokens": float(trace.prompt_tokens.mean()),
        "output_tokens": float(trace.output_tokens.mean()),
    }
    batch = float(row["batch_size"])
    predicted = float(throughput_speedup(setting, accepted, batch=batch, **lengths))
    decode = estimate(
        setting,
        accepted,
        batch=batch,
        context=lengths["prompt_tokens"] + lengths["output_tokens"] / 2,
    )
    low, high = intervals(setting, decode, batch=batch, generator=generator).speedup
    scale = predicted / float(decode.speedup)
    measured = float(row["measured_speedup"])
    return Row(
        row["dataset"],
        row["method"],
        int(batch),
        measured,
        predicted,
        float(low) * scale,
        float(high) * scale,
    )
