"""FFN Fusion: feed-forward layers between which attention was removed run side by side as one."""

from costmodel.method import Citation, Method, Reported
from costmodel.transforms.declared import FusedFeedForward

METHOD = Method(
    slug="ffn-fusion",
    title="FFN Fusion",
    citation=Citation(
        authors="Bercovich et al.",
        title="FFN Fusion: Rethinking Sequential Computation in Large Language Models",
        year=2025,
        arxiv="2503.18908",
    ),
    group="architectures",
    read="abstract",
    target=(
        FusedFeedForward(
            name="ffn-fusion", attention_ratio=64 / 126, fused_ratio=17 / 62, width_ratio=0.645
        ),
    ),
    own_weights=True,
    systems=("FFN Fusion",),
    reproduced=("tests/costmodel/transforms/test_published.py::test_ffn_fusion_of_llama_405b",),
    reported=(
        Reported(
            quantity="speedup",
            value=1.71,
            source="arXiv:2503.18908, abstract",
            model="Ultra-253B-Base",
            relative_to="Llama-3.1-405B-Instruct",
            note="latency",
        ),
        Reported(
            quantity="speedup",
            value=1.53,
            source="a review of arXiv:2503.18908 that quotes its table 2",
            model="Ultra-253B-Base",
            relative_to="Llama-3.1-405B-Instruct",
            note="latency before layers are fused",
        ),
    ),
    assumed=(
        (
            "target.attention_ratio: 64 of Llama-3.1-405B's 126 layers attend in the released"
            " checkpoint, says llama.cpp's list of them (pull request 12843)"
        ),
        (
            "target.fused_ratio: 81 feed-forward layers, which its 648 tensors leave beside 64 of"
            " attention"
        ),
        (
            "target.width_ratio: its 253.4 billion weights, as if no feed-forward layer had been"
            " left out before fusing"
        ),
    ),
)
