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
    read="code",
    own_weights=True,
    # OswaldHe/HMT-pytorch, hmt_src/main.py and scripts/eval: segments of 1,024 tokens, 32 of which are
    # the last of the segment before, and a vector for every one of them
    target=(
        ContextTransform(name="hmt", kept_ratio=1 / 1024, latest_tokens=1024, encoder_ratio=1.0),
    ),
    systems=("HMT",),
    assumed=(
        (
            "target.kept_ratio: all these vectors stay; there cross-attention makes one of the latest"
            " hundred"
        ),
        (
            "target.encoder_ratio: segments pass the target itself, and half of each once more, which is"
            " left out; in one pass here, though they attend to themselves alone"
        ),
    ),
)
