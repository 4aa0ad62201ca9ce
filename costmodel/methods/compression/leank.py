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
    read="abstract",
    target=(CacheTransform(name="leank", key_ratio=0.30, value_ratio=0.83),),
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
