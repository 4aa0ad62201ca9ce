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
    read="code",
    own_weights=True,
    # itsnamgyu/block-transformer, conf/trainer/block_main_b4_1.2b.yaml: blocks of four, 12 layers over
    # blocks and 12 inside; model/token_decoder/base.py: these read two vectors and the block so far
    advance=Spans(tokens=4.0, layers=0.5, context_tokens=5),
    systems=("Block Transformer",),
    reported=(
        Reported(
            quantity="speedup",
            value=10.0,
            source="arXiv:2406.02657, abstract",
            note="throughput at equal perplexity, 10 to 20 are stated",
        ),
    ),
)
