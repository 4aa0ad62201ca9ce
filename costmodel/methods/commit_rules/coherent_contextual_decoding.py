"""Coherent contextual decoding: confidence is averaged over the contexts of earlier passes."""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="coherent-contextual-decoding",
    title="Coherent contextual decoding",
    citation=Citation(
        authors="Chen et al.",
        title="Beyond Confidence: Adaptive and Coherent Decoding for Diffusion Language Models",
        year=2025,
        arxiv="2512.02044",
    ),
    group="commit rules",
    read="abstract",
    shape=Shape(kind="block", nodes=32),
    refine=Refine(forward="full", commit="history", tokens_per_pass=3.48, canvas_tokens=256),
    systems=("CCD",),
    reported=(
        Reported(
            quantity="speedup",
            value=3.48,
            source="arXiv:2512.02044, abstract",
            note="largest",
        ),
    ),
    assumed=(
        "refine.tokens_per_pass: the stated speedup",
        (
            "refine.commit: a threshold of 0.9 on the mean over four passes; the abstract states"
            " neither"
        ),
    ),
)
