"""How far off are simulated times beyond what errors of kernels explain?

What no table states: settings, front ends, load generators, and mechanisms that are not known.
Half-widths of an 80 % interval by what was served, from residuals of published serving runs. Leaves
out errors of kernels, which the device profiles hold.
"""

from collections.abc import Mapping

from costmodel.architectures.architecture import Architecture

# `python -m tests.golden.left_out SCORE.json --write` makes this table of published runs: for every
# set of at least 40 measurements the ratio at which intervals, the kernels' errors included, hold
# 80 % of what models outside the set's making show, and at least what repeats differ by; smaller
# sets take the next wider one, and what was not measured the widest. (quantity, class, engine),
# empty where all are meant.
RATIOS: Mapping[tuple[str, str, str], float] = {
    ("tpot", "", ""): 0.208,
    ("tpot", "MLA", ""): 0.167,
    ("tpot", "MoE", ""): 0.048,
    ("tpot", "MoE", "vllm"): 0.048,
    ("tpot", "dense", ""): 0.080,
    ("tpot", "dense", "sglang"): 0.086,
    ("tpot", "dense", "tensorrt-llm"): 0.085,
    ("tpot", "dense", "vllm"): 0.048,
    ("tpot", "disaggregated", ""): 0.208,
    ("tpot", "disaggregated", "tensorrt-llm"): 0.129,
    ("ttft", "", ""): 3.627,
    ("ttft", "MLA", ""): 1.108,
    ("ttft", "MoE", ""): 0.521,
    ("ttft", "MoE", "vllm"): 0.517,
    ("ttft", "dense", ""): 0.444,
    ("ttft", "dense", "sglang"): 0.403,
    ("ttft", "dense", "tensorrt-llm"): 0.545,
    ("ttft", "dense", "vllm"): 0.229,
    ("ttft", "disaggregated", ""): 3.627,
    ("ttft", "disaggregated", "tensorrt-llm"): 3.054,
}

DISAGGREGATED = (
    "disaggregated"  # stands for a class: how requests travel matters more than the model
)


def class_of(architecture: Architecture) -> str:
    """`MLA`, `MoE` or `dense`: what costs most in a model.

    >>> from costmodel.architectures.library import load_model
    >>> [class_of(load_model(name)) for name in ("deepseek-v3", "gpt-oss-120b", "llama-3.1-8b")]
    ['MLA', 'MoE', 'dense']
    """
    latent = any(block.attention.is_mla for block, _ in architecture.blocks)
    return "MLA" if latent else "MoE" if architecture.is_moe else "dense"


def left_out_ratio(
    quantity: str, architecture: Architecture, engine: str, *, workers: int = 1
) -> float:
    """Half-width of the 80 % interval of what a simulation leaves out: measured within 1 + ratio of
    predicted.

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
