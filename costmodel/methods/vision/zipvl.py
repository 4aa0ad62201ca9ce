"""ZipVL: prompts attend to important tokens alone, whose keys and values keep more bits."""

from costmodel.method import Citation, Method
from costmodel.transforms.declared import CacheTransform, SparseAttention

METHOD = Method(
    slug="zipvl",
    title="ZipVL",
    citation=Citation(
        authors="He, Chen, Liu, Shao, Zhou, Zhang, Zhuang",
        title="ZipVL: Efficient Large Vision-Language Models with Dynamic Token Sparsification",
        year=2024,
        arxiv="2410.08584",
    ),
    group="vision",
    read="abstract",
    target=(
        SparseAttention(name="zipvl", prompt_ratio=0.25, prompt_kernels=2),
        CacheTransform(name="zipvl", bits=3.0, scale_bits=0.5, kernels=2),
    ),
    systems=("ZipVL",),
    assumed=(
        "target.prompt_ratio: half of the tokens, and so a quarter of their pairs",
        "target.bits, target.scale_bits: a mean of 4 bits for important tokens and 2 for the rest",
        "target.prompt_kernels, target.kernels: two launches each to choose and to pack",
    ),
)
