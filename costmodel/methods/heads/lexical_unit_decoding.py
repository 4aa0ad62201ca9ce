"""Lexical unit decoding: the target commits contiguous tokens that it is sure of, unverified."""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="lexical-unit-decoding",
    title="Lexical unit decoding",
    citation=Citation(
        authors="Sun et al.",
        title=(
            "Decoding at the Speed of Thought: Harnessing Parallel Decoding of Lexical Units for"
            " LLMs"
        ),
        year=2024,
        arxiv="2405.15208",
    ),
    group="heads",
    read="abstract",
    shape=Shape(kind="block", nodes=4),
    refine=Refine(forward="block", commit="threshold", tokens_per_pass=1.33, canvas_tokens=4),
    systems=("LUD",),
    reported=(
        Reported(
            quantity="speedup",
            value=1.33,
            source="arXiv:2405.15208, abstract",
            note="text; 1.30 for code",
        ),
    ),
    assumed=(
        (
            "refine.tokens_per_pass: the stated speedup, as if a pass over four tokens cost what"
            " one over one does"
        ),
        "shape.nodes: four tokens",
    ),
)
