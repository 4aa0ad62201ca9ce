"""Plain decoding: one pass of the target per token, the baseline of every speedup."""

from costmodel.method import Citation, Method

METHOD = Method(
    slug="plain-decoding",
    title="Autoregressive decoding",
    citation=Citation(
        authors="Vaswani et al.", title="Attention Is All You Need", year=2017, arxiv="1706.03762"
    ),
    group="plain",
    read="paper",
)
