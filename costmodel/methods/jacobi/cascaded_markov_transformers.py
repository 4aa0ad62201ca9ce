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
    read="abstract",
    shape=Shape(kind="block", nodes=32),
    refine=Refine(
        forward="block", commit="static", tokens_per_pass=8.0, canvas_tokens=32, copies=10
    ),
    systems=("Cascaded Markov Transformers",),
    assumed=(
        "shape.nodes: a translation of 32 tokens, which is one block",
        "refine.tokens_per_pass: four passes, as the paper's figure of the method has them",
        (
            "refine.copies: ten candidates of every position, as in that figure; the first pass"
            " scores one"
        ),
    ),
)
