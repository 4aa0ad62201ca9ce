"""How far off are simulated times beyond what errors of kernels explain?

What no table states: settings, front ends, load generators, and mechanisms that are not known. Half-widths of an 80 %
interval by what was served, from residuals of published serving runs. Leaves out errors of kernels, which the device
profiles hold.
"""

from collections.abc import Mapping

from costmodel.architectures.architecture import Architecture

# `python -m tests.golden.left_out SCORE.json --write` makes this table of published runs: for every set of at least 40
# measurements the ratio at which intervals, the kernels' errors included, hold 80 % of what models outside the set's
# making show; smaller sets take the next wider one. (quantity, class, engine), empty where all are meant.
RATIOS: Mapping[tuple[str, str, str], float] = {
    ("tpot", "", ""): 0.149,
    ("tpot", "MLA", ""): 0.573,
    ("tpot", "MLA", "tensorrt-llm"): 0.681,
    ("tpot", "MoE", ""): 0.095,
    ("tpot", "MoE", "vllm"): 0.072,
    ("tpot", "dense", ""): 0.142,
    ("tpot", "dense", "sglang"): 0.119,
    ("tpot", "dense", "tensorrt-llm"): 0.148,
    ("tpot", "dense", "vllm"): 0.096,
    ("ttft", "", ""): 0.886,
    ("ttft", "MLA", ""): 2.519,
    ("ttft", "MLA", "tensorrt-llm"): 2.948,
    ("ttft", "MoE", ""): 0.660,
    ("ttft", "MoE", "vllm"): 0.631,
    ("ttft", "dense", ""): 0.592,
    ("ttft", "dense", "sglang"): 0.608,
    ("ttft", "dense", "tensorrt-llm"): 0.904,
    ("ttft", "dense", "vllm"): 0.281,
}

DISAGGREGATED = "disaggregated"  # stands for a class: how requests travel matters more than the model


def class_of(architecture: Architecture) -> str:
    """`MLA`, `MoE` or `dense`: what costs most in a model.

    >>> from costmodel.architectures.library import load_model
    >>> [class_of(load_model(name)) for name in ("deepseek-v3", "gpt-oss-120b", "llama-3.1-8b")]
    ['MLA', 'MoE', 'dense']
    """
    latent = any(block.attention.is_mla for block, _ in architecture.blocks)
    return "MLA" if latent else "MoE" if architecture.is_moe else "dense"


def left_out_ratio(quantity: str, architecture: Architecture, engine: str, *, workers: int = 1) -> float:
    """Half-width of the 80 % interval of what a simulation leaves out: measured within 1 + ratio of predicted.

    Args:
        quantity: `tpot` or `ttft`.
        architecture: of the model that is served.
        engine: its name.
        workers: that serve together; with more than one, prompts are computed apart from decoding.
    """
    kind = DISAGGREGATED if workers > 1 else class_of(architecture)
    return next(RATIOS[key] for key in keys(quantity, kind, engine) if key in RATIOS)


def keys(quantity: str, kind: str, engine: str) -> tuple[tuple[str, str, str], ...]:
    """Keys that may hold a ratio, the closest first."""
    return (quantity, kind, engine), (quantity, kind, ""), (quantity, "", "")
