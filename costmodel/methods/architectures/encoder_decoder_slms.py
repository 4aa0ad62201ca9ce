"""Encoder-decoder small language models: the prompt is read once by an encoder of its own."""

from costmodel.method import Citation, Method, Reported
from costmodel.transforms.declared import EncoderSplit

METHOD = Method(
    slug="encoder-decoder-slms",
    title="Encoder-decoder small language models",
    citation=Citation(
        authors="Elfeki, Liu, Voegele",
        title="Return of the Encoder: Maximizing Parameter Efficiency for SLMs",
        year=2025,
        arxiv="2501.16273",
    ),
    group="architectures",
    read="code",
    # microsoft/encoder-decoder-slm, src/mu/models/modeling_mu.py: 20 layers read and ten write; 20 and
    # 20 in the model that sees images
    target=(EncoderSplit(name="encoder-decoder-slms", encoder_ratio=2 / 3),),
    own_weights=True,
    systems=("Encoder-decoder SLMs",),
    reported=(
        Reported(
            quantity="speedup",
            value=4.7,
            source="arXiv:2501.16273, abstract",
            note="throughput on edge devices; the first token comes 47 % sooner",
        ),
    ),
)
