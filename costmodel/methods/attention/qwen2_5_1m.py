"""Qwen2.5-1M: prompts of a million tokens attend along vertical and slanted lines alone."""

from costmodel.method import Citation, Method, Reported
from costmodel.transforms.declared import SparseAttention

METHOD = Method(
    slug="qwen2-5-1m",
    title="Qwen2.5-1M",
    citation=Citation(
        authors="An Yang et al.", title="Qwen2.5-1M Technical Report", year=2025, arxiv="2501.15383"
    ),
    group="attention",
    read="paper",
    target=(SparseAttention(name="qwen2-5-1m", prompt_ratio=0.073, prompt_kernels=3),),
    systems=("Qwen2.5-1M",),
    reported=(
        Reported(
            quantity="prompt_s",
            value=109.0,
            source="arXiv:2501.15383",
            model="qwen2.5-14b",
            device="H20",
            batch=1,
            context=1_000_000,
            note="12.2 minutes without; devices not stated",
        ),
        Reported(
            quantity="speedup",
            value=3.0,
            source="arXiv:2501.15383, abstract",
            context=1_000_000,
            note="of prompts, 3 to 7 are stated",
        ),
    ),
    assumed=(
        (
            "target.prompt_ratio: attention is 13.7 times faster at a million tokens; shorter"
            " prompts save less"
        ),
        "target.prompt_kernels: three launches to choose the lines",
    ),
)
