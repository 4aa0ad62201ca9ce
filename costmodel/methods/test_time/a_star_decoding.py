"""A*-decoding: a search over partial answers is led by a model that scores their steps."""

from costmodel.method import Citation, Method, Samples

METHOD = Method(
    slug="a-star-decoding",
    title="A*-decoding",
    citation=Citation(
        authors="Chatziveroglou",
        title="A*-Decoding: Token-Efficient Inference Scaling",
        year=2025,
        arxiv="2505.13672",
    ),
    group="test time",
    read="abstract",
    advance=Samples(rows=8.0, judged_tokens=64),
    systems=("A*-Decoding",),
    assumed=(
        "advance.rows: eight partial answers at a time",
        "advance.judged_tokens: steps of 64 tokens, scored by a model as large as the target",
    ),
)
