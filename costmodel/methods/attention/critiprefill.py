"""CritiPrefill: segments of a prompt attend to the blocks of the cache that matter most to them."""

from costmodel.method import Citation, Method, Reported
from costmodel.transforms.declared import SparseAttention

METHOD = Method(
    slug="critiprefill",
    title="CritiPrefill",
    citation=Citation(
        authors="Lv, Feng, Xie, Jia, Peng, Xie",
        title=(
            "CritiPrefill: A Segment-wise Criticality-based Approach for Prefilling Acceleration in"
            " LLMs"
        ),
        year=2024,
        arxiv="2409.12490",
    ),
    group="attention",
    read="abstract",
    target=(SparseAttention(name="critiprefill", prompt_ratio=0.2, prompt_kernels=4),),
    systems=("CritiPrefill",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.7,
            source="arXiv:2409.12490, abstract",
            model="llama-3-8b",
            device="a100-sxm-80",
            context=131_072,
            note="of prompts, largest",
        ),
    ),
    assumed=(
        "target.prompt_ratio: a fifth of the pairs; its budget is not stated",
        "target.prompt_kernels: four launches to score segments and blocks",
    ),
)
