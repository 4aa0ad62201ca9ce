"""Jacobi decoding: a block is guessed and corrected in parallel until nothing changes."""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="jacobi-decoding",
    title="Jacobi and Gauss-Seidel decoding",
    citation=Citation(
        authors="Santilli, Severino, Postolache, Maiorca, Mancusi, Marin, Rodola",
        title="Accelerating Transformer Inference for Translation via Parallel Decoding",
        year=2023,
        arxiv="2305.10427",
    ),
    group="jacobi",
    read="code",
    exact_when="temperature 0",
    shape=Shape(kind="block", nodes=5),
    refine=Refine(forward="block", commit="fixed_point", tokens_per_pass=1.38, canvas_tokens=5),
    systems=("Jacobi / Gauss-Seidel MT",),
    reported=(
        Reported(
            quantity="speedup",
            value=1.38,
            source="arXiv:2305.10427, abstract",
            data="translation",
            note="largest",
        ),
    ),
    assumed=(
        "refine.tokens_per_pass: the stated speedup",
        "shape.nodes: blocks of five, of three to five",
    ),
)
