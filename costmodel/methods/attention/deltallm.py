"""DeltaLLM: attention is computed for keys and queries that changed enough since the last token."""

from costmodel.method import Citation, Method
from costmodel.transforms.declared import SparseAttention

METHOD = Method(
    slug="deltallm",
    title="DeltaLLM",
    citation=Citation(
        authors="Qi, Gao, Ren, Chen",
        title=(
            "DeltaLLM: A Training-Free Framework Exploiting Temporal Sparsity for Efficient Edge"
            " LLM Inference"
        ),
        year=2025,
        arxiv="2507.19608",
    ),
    group="attention",
    read="abstract",
    target=(
        SparseAttention(
            name="deltallm", token_ratio=0.43, kernels=1, prompt_ratio=0.4, prompt_kernels=1
        ),
    ),
    systems=("DeltaLLM",),
    assumed=(
        (
            "target.token_ratio, target.prompt_ratio: sparsity of 57 % over both phases and of 60 %"
            " in prompts, as stated"
        ),
        "target.kernels, target.prompt_kernels: one launch to find what changed",
    ),
)
