"""First finish search: several answers are sampled until the first of them ends."""

from costmodel.method import Citation, Method, Samples

METHOD = Method(
    slug="first-finish-search",
    title="First finish search",
    citation=Citation(
        authors="Agarwal, Sengupta, Chakraborty",
        title="First Finish Search: Efficient Test-Time Scaling in Large Language Models",
        year=2025,
        arxiv="2505.18149",
    ),
    group="test time",
    read="abstract",
    advance=Samples(rows=4.0),
    systems=("First Finish Search",),
    assumed=(
        "advance.rows: four samples",
        "advance.tokens: one; that the first answer to end is shorter than the mean is left out",
    ),
)
