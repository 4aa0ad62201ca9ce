"""Dolphin: a model of half a billion parameters turns a long text into a few vectors for one of
seven.
"""

from costmodel.method import Citation, Method, Reported
from costmodel.transforms.declared import ContextTransform

METHOD = Method(
    slug="dolphin",
    title="Dolphin",
    citation=Citation(
        authors="Chen, Li, Xin, Wang",
        title=(
            "Dolphin: Long Context as a New Modality for Energy-Efficient On-Device Language Models"
        ),
        year=2024,
        arxiv="2408.15518",
    ),
    group="contexts",
    read="abstract",
    own_weights=True,
    target=(
        ContextTransform(name="dolphin", kept_ratio=0.05, latest_tokens=64, encoder_ratio=0.07),
    ),
    systems=("Dolphin",),
    reported=(
        Reported(
            quantity="speedup",
            value=5.0,
            source="arXiv:2408.15518, abstract",
            note="latency of long texts; energy falls tenfold",
        ),
    ),
    assumed=(
        "target.kept_ratio: a vector for twenty tokens",
        "target.latest_tokens: the question, as text",
        "target.encoder_ratio: 0.5B beside 7B",
    ),
)
