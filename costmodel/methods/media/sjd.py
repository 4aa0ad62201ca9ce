"""Speculative Jacobi decoding: a window of image tokens is refined; each stays as far as its
probability grew.
"""

from costmodel.method import Citation, Method, Refine, Shape

METHOD = Method(
    slug="sjd",
    title="Speculative Jacobi decoding",
    citation=Citation(
        title=(
            "Accelerating Auto-regressive Text-to-Image Generation with Training-free Speculative"
            " Jacobi Decoding"
        ),
        year=2024,
    ),
    group="media",
    read="code",
    exact_when="drafts are judged by the probabilities of the pass before",
    shape=Shape(kind="block", nodes=16),
    refine=Refine(
        forward="block", commit="window_rejection", tokens_per_pass=2.0, canvas_tokens=16, copies=2
    ),
    systems=("SJD",),
    assumed=(
        "refine.tokens_per_pass: two",
        "refine.copies: with and without the prompt",
    ),
)
