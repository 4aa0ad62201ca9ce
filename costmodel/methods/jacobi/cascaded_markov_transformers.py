"""Cascaded decoding: passes with ever longer bounded contexts prune what a translation may be."""

from costmodel.method import Citation, Method, Refine, Shape

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
    read="code",
    shape=Shape(kind="block", nodes=32),
    # harvardnlp/cascaded-generation, README: 32 candidates in five rounds
    refine=Refine(
        forward="block", commit="static", tokens_per_pass=6.4, canvas_tokens=32, copies=32
    ),
    systems=("Cascaded Markov Transformers",),
    assumed=(
        "shape.nodes: a translation of 32 tokens, which is one block",
        "refine.copies: candidates of every position; the first pass scores one",
    ),
)
