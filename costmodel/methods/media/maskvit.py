"""MaskViT: all tokens of the next frames are filled in a few masked passes."""

from costmodel.method import Citation, Method, Refine, Shape

METHOD = Method(
    slug="maskvit",
    title="MaskViT",
    citation=Citation(
        authors="Gupta et al.",
        title="MaskViT: Masked Visual Pre-Training for Video Prediction",
        year=2022,
        arxiv="2206.11894",
    ),
    group="media",
    read="abstract",
    shape=Shape(kind="block", nodes=256),
    refine=Refine(forward="full", commit="static", tokens_per_pass=16.0, canvas_tokens=256),
    systems=("MaskViT",),
    assumed=("refine.tokens_per_pass: 256 tokens of a frame in 16 passes",),
)
