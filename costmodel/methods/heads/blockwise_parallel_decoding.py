"""Blockwise parallel decoding: output heads propose the next tokens; the longest correct prefix
stays.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="blockwise-parallel-decoding",
    title="Blockwise parallel decoding",
    citation=Citation(
        authors="Stern, Shazeer, Uszkoreit",
        title="Blockwise Parallel Decoding for Deep Autoregressive Models",
        year=2018,
        arxiv="1811.03115",
    ),
    group="heads",
    read="abstract",
    exact_when="temperature 0",
    draft=(Draft(by="heads", matrices=((1, 1),), heads=8, depths_per_pass=0),),
    shape=Shape(kind="chain", nodes=8),
    verify=Verify(rule="match"),
    systems=("Blockwise Parallel Decoding",),
    reported=(
        Reported(
            quantity="speedup",
            value=4.0,
            source="arXiv:1811.03115, abstract",
            note="largest, of relaxed acceptance too; half as many iterations without loss",
        ),
    ),
    assumed=(
        "draft.heads, shape.nodes: eight",
        "verify.rule: the exact form",
    ),
)
