"""How far off are simulated times beyond what errors of kernels explain?

What no table states: settings, front ends, load generators, and mechanisms that are not known.
Half-widths of an 80 % interval by engine and phase, from residuals of published serving runs. Leaves
out errors of kernels, which the device profiles hold.
"""

from collections.abc import Mapping
from typing import Literal

Serving = Literal["aggregated", "disaggregated"]

# `python -m tests.golden.left_out SCORE.json --write` makes this table of published runs by split
# conformal prediction (`app.answers.scoring.conformal`): for every engine with at least 40
# measurements of two families the ratio at which intervals, the kernels' errors included, hold 80 %
# of them. (quantity, serving, engine); empty where all are meant, the widest for what was not
# measured.
RATIOS: Mapping[tuple[str, str, str], float] = {
    ("tpot", "", ""): 0.527,
    ("tpot", "aggregated", ""): 0.106,
    ("tpot", "aggregated", "atom"): 0.127,
    ("tpot", "aggregated", "sglang"): 0.152,
    ("tpot", "aggregated", "tensorrt-llm"): 0.143,
    ("tpot", "aggregated", "vllm"): 0.000,
    ("tpot", "disaggregated", ""): 0.282,
    ("tpot", "disaggregated", "sglang"): 0.527,
    ("tpot", "disaggregated", "tensorrt-llm"): 0.000,
    ("ttft", "", ""): 2.107,
    ("ttft", "aggregated", ""): 0.271,
    ("ttft", "aggregated", "atom"): 0.434,
    ("ttft", "aggregated", "sglang"): 0.322,
    ("ttft", "aggregated", "tensorrt-llm"): 0.617,
    ("ttft", "aggregated", "vllm"): 0.130,
    ("ttft", "disaggregated", ""): 1.959,
    ("ttft", "disaggregated", "sglang"): 1.959,
    ("ttft", "disaggregated", "tensorrt-llm"): 2.107,
}


def left_out_ratio(quantity: str, engine: str, serving: Serving) -> float:
    """Half-width of the 80 % interval of what a simulation leaves out: measured within 1 + ratio of
    predicted.

    Args:
        quantity: `tpot` or `ttft`.
        engine: its name.
        serving: whether prompts are computed apart from decoding.
    """
    return next(RATIOS[key] for key in keys(quantity, serving, engine) if key in RATIOS)


def keys(quantity: str, serving: str, engine: str) -> tuple[tuple[str, str, str], ...]:
    """Keys that may hold a ratio, the closest first."""
    return (quantity, serving, engine), (quantity, serving, ""), (quantity, "", "")
