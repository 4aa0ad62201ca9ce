"""FastCoT: a Jacobi window beside the next token shows the chain of thought what may follow."""

from costmodel.method import Citation, Method, Refine, Shape

METHOD = Method(
    slug="fastcot",
    title="FastCoT",
    citation=Citation(
        authors="Zhang, Liu, Zheng, Zhuang, Gu, Chen",
        title=(
            "Fast Chain-of-Thought: A Glance of Future from Parallel Decoding Leads to Answers"
            " Faster"
        ),
        year=2023,
        arxiv="2311.08263",
    ),
    group="jacobi",
    read="abstract",
    shape=Shape(kind="block", nodes=16),
    refine=Refine(forward="block", commit="threshold", tokens_per_pass=1.25, canvas_tokens=16),
    systems=("FastCoT",),
    assumed=(
        "refine.tokens_per_pass: a fifth fewer passes",
        "shape.nodes: a window of 16",
    ),
)
