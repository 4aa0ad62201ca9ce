"""Parallel branches: steps of reasoning that do not depend on one another share one sequence and
its passes.
"""

from costmodel.method import Citation, Method, Reported, Samples

METHOD = Method(
    slug="parallel-branches",
    title="Parallel decoding within one sequence",
    citation=Citation(
        authors="Yu",
        title="Accelerate Parallelizable Reasoning via Parallel Decoding within One Sequence",
        year=2025,
        arxiv="2503.20533",
    ),
    group="test time",
    read="abstract",
    advance=Samples(rows=2.2, tokens=2.2),
    systems=("Parallelizable reasoning in one sequence",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.0,
            source="arXiv:2503.20533, abstract",
            note="decoding, more than 100 % faster",
        ),
    ),
    assumed=("advance: 2.2 branches open on average",),
)
