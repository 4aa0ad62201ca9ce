"""LeanK: key channels that matter little are left out."""

from costmodel.method import Citation, Method, Reported
from costmodel.transforms.declared import CacheTransform

METHOD = Method(
    slug="leank",
    title="LeanK",
    citation=Citation(
        authors="Zhang, He, Jiang, Zhang, Yang, Wang, Qiu",
        title="LeanK: Learnable K Cache Channel Pruning for Efficient Decoding",
        year=2025,
        arxiv="2508.02215",
    ),
    group="compression",
    read="code",
    # microsoft/MInference, LeanK/scripts/llama3.1-8b.yaml: 70 % of the channels leave; modules/leank.py:
    # the first 128 and the latest 768 tokens keep all
    target=(CacheTransform(name="leank", key_ratio=0.30, value_ratio=0.83, dense_tokens=896),),
    systems=("LeanK",),
    reported=(
        Reported(
            quantity="speedup",
            value=1.3,
            source="arXiv:2508.02215, abstract",
            note="of the attention kernel",
        ),
    ),
    assumed=("target.value_ratio: 0.83, between the 16 and 18 % stated",),
)
