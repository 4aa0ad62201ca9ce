"""PLPHP: every layer and head drops the image tokens that it attends to least."""

from costmodel.method import Citation, Method, Reported
from costmodel.transforms.declared import CacheTransform

METHOD = Method(
    slug="plphp",
    title="PLPHP",
    citation=Citation(
        authors="Meng et al.",
        title=(
            "PLPHP: Per-Layer Per-Head Vision Token Pruning for Efficient Large Vision-Language"
            " Models"
        ),
        year=2025,
        arxiv="2502.14504",
    ),
    group="vision",
    read="abstract",
    target=(CacheTransform(name="plphp", key_ratio=0.5, value_ratio=0.5, kernels=1),),
    systems=("PLPHP",),
    reported=(
        Reported(
            quantity="speedup",
            value=1.18,
            source="arXiv:2502.14504, abstract",
            note="decoding",
        ),
        Reported(
            quantity="bytes_ratio",
            value=0.5,
            source="arXiv:2502.14504, abstract",
            note="of the cache, at most",
        ),
    ),
    assumed=(
        "target.key_ratio, target.value_ratio: half of the whole cache, as stated",
        "target.kernels: one launch to choose",
    ),
)
