"""LoopServe: over the turns of a dialogue prompts attend sparsely and the cache is thinned out."""

from costmodel.method import Citation, Method
from costmodel.transforms.declared import SparseAttention

METHOD = Method(
    slug="loopserve",
    title="LoopServe",
    citation=Citation(
        authors="Li et al.",
        title=(
            "LoopServe: An Adaptive Dual-phase LLM Inference Acceleration System for Multi-Turn"
            " Dialogues"
        ),
        year=2025,
        arxiv="2507.13681",
    ),
    group="attention",
    read="abstract",
    target=(
        SparseAttention(
            name="loopserve", token_ratio=0.25, kernels=2, prompt_ratio=0.25, prompt_kernels=3
        ),
    ),
    systems=("LoopServe",),
    assumed=(
        "target.token_ratio, target.prompt_ratio: a quarter",
        "target.kernels, target.prompt_kernels: two and three launches to choose",
        "target: tokens that leave the cache are read no more, but stay in memory here",
    ),
)
