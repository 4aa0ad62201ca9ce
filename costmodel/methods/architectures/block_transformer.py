"""Block Transformer: one half of the layers runs once per block of tokens, the other inside the
block.
"""

from costmodel.method import Citation, Method, Reported, Spans

METHOD = Method(
    slug="block-transformer",
    title="Block Transformer",
    citation=Citation(
        authors="Ho et al.",
        title="Block Transformer: Global-to-Local Language Modeling for Fast Inference",
        year=2024,
        arxiv="2406.02657",
    ),
    group="architectures",
    read="abstract",
    own_weights=True,
    advance=Spans(tokens=4.0, layers=0.5, context_tokens=8),
    systems=("Block Transformer",),
    reported=(
        Reported(
            quantity="speedup",
            value=10.0,
            source="arXiv:2406.02657, abstract",
            note="throughput at equal perplexity, 10 to 20 are stated",
        ),
    ),
    assumed=(
        "advance.tokens: blocks of four tokens",
        "advance.layers: half of the layers are local",
        "advance.context_tokens: a block and the one before it",
    ),
)
