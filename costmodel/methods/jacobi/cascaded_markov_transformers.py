"""Cascaded decoding: passes with ever longer bounded contexts prune what a translation may be."""

from costmodel.method import Citation, Method

METHOD = Method(
    slug="cascaded-markov-transformers",
    title="Cascaded decoding with Markov transformers",
    citation=Citation(
        authors="Deng, Rush",
        title="Cascaded Text Generation with Markov Transformers",
        year=2020,
        arxiv="2006.01112",
    ),
    group="jacobi",
    read="abstract",
    needs="encoder-decoder models, and a cascade of passes that score all candidates of every position",
    systems=("Cascaded Markov Transformers",),
)  # fmt: skip
