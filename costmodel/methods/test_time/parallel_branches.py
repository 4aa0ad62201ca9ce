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
    read="code",
    # yuyijiong/parallel-decoding-in-one-sequence, results: over eight files of 100 answers each, 1.35 to
    # 2.3 times the tokens a second of one branch, 1.7 as a mean
    advance=Samples(rows=1.7, tokens=1.7),
    systems=("Parallelizable reasoning in one sequence",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.0,
            source="arXiv:2503.20533, abstract",
            note="decoding, more than 100 % faster",
        ),
    ),
    assumed=("advance: as many branches as it is faster, as if passes of several took no longer",),
)
