"""Adaptive best of k: harder prompts get more samples; a reward model keeps one."""

from costmodel.method import Citation, Method, Samples

METHOD = Method(
    slug="adaptive-best-of-k",
    title="Adaptive best of k",
    citation=Citation(
        authors="Damani, Shenfeld, Peng, Bobu, Andreas",
        title="Learning How Hard to Think: Input-Adaptive Allocation of LM Computation",
        year=2024,
        arxiv="2410.04707",
    ),
    group="test time",
    read="abstract",
    advance=Samples(rows=4.0, judged_tokens=512),
    systems=("Adaptive best-of-k",),
    assumed=(
        "advance.rows: four samples on average",
        (
            "advance.judged_tokens: answers of 512 tokens, scored once by a model as large as the"
            " target"
        ),
    ),
)
