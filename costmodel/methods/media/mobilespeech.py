"""MobileSpeech: tokens of speech are filled in a few masked passes on a phone."""

from costmodel.method import Citation, Method, Refine, Shape

METHOD = Method(
    slug="mobilespeech",
    title="MobileSpeech",
    citation=Citation(
        authors="Ji, Jiang, Wang, Zuo, Zhao",
        title=(
            "MobileSpeech: A Fast and High-Fidelity Framework for Mobile Zero-Shot Text-to-Speech"
        ),
        year=2024,
        arxiv="2402.09378",
    ),
    group="media",
    read="abstract",
    shape=Shape(kind="block", nodes=512),
    refine=Refine(forward="full", commit="static", tokens_per_pass=64.0, canvas_tokens=512),
    systems=("MobileSpeech",),
    assumed=("refine.tokens_per_pass: 512 tokens in eight passes",),
)
