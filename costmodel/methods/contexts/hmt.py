"""HMT: a text is read in segments, each with memory vectors recalled from those before it."""

from costmodel.method import Citation, Method
from costmodel.transforms.declared import ContextTransform

METHOD = Method(
    slug="hmt",
    title="HMT",
    citation=Citation(
        authors="He, Qin, Prakriya, Sun, Cong",
        title="HMT: Hierarchical Memory Transformer for Long Context Language Processing",
        year=2024,
        arxiv="2405.06067",
    ),
    group="contexts",
    read="abstract",
    own_weights=True,
    target=(ContextTransform(name="hmt", kept_ratio=0.01, latest_tokens=1024, encoder_ratio=1.0),),
    systems=("HMT",),
    assumed=(
        "target.kept_ratio: one vector per segment, a hundredth of it",
        "target.latest_tokens: one segment of 1,024 tokens",
        (
            "target.encoder_ratio: segments pass the target itself; in one pass here, though they"
            " attend to themselves alone"
        ),
    ),
)
