"""HAMburger: one pass of the target, then a small decoder writes the tokens of a span; one cache
entry each.
"""

from costmodel.method import Citation, Method, Reported, Spans

METHOD = Method(
    slug="hamburger",
    title="HAMburger",
    citation=Citation(
        authors="Liu, Zhang",
        title="HAMburger: Accelerating LLM Inference via Token Smashing",
        year=2025,
        arxiv="2505.20438",
    ),
    group="heads",
    read="abstract",
    advance=Spans(tokens=2.0, layers=2, context_tokens=16),
    systems=("HAMburger",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.0,
            source="arXiv:2505.20438, abstract",
            note="largest, tokens per second",
        ),
    ),
    assumed=(
        (
            "advance.layers, advance.context_tokens: a micro-decoder of two layers over the tokens"
            " of its span"
        ),
        "advance.layers: they count among the target's own, though they come on top",
        "advance.tokens: twice fewer cache entries are stated",
    ),
)
