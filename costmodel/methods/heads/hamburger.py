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
    read="code",
    # Jingyu6/hamburger, hamburger/model/hamburger_modules.py and llama.py: four layers over the states
    # of four layers of the target and at most three tokens
    advance=Spans(tokens=2.0, layers=4, context_tokens=7),
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
        "advance.layers: they count among the target's own, though they come on top",
        "advance.tokens: twice fewer cache entries are stated; a span ends after four tokens",
    ),
)
