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
    read="code",
    # 66RING/CritiPrefill, criti_prefill/ops.py and modeling_patch.py: segments of 512 tokens attend to
    # themselves and 64 blocks of 32; all pairs in the first of 32 layers, the first 4,096 tokens and the
    # last segment: at 131,072 tokens 0.074 of them
    target=(SparseAttention(name="critiprefill", prompt_ratio=0.074, prompt_kernels=4),),
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
        "target.prompt_ratio: of 131,072 tokens; shorter prompts save less",
        "target.prompt_kernels: four launches to score segments and blocks",
    ),
)
