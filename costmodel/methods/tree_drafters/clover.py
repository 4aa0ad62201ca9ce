"""Clover: light heads that read one another draft a tree of four tokens, small enough for
batches.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="clover",
    title="Clover",
    citation=Citation(
        authors="Xiao, Shi, Nie, Yang, Deng, Su, Chen, Cui",
        title="Clover: Regressive Lightweight Speculative Decoding with Sequential Knowledge",
        year=2024,
        arxiv="2405.00263",
    ),
    group="tree drafters",
    read="paper",
    exact_when="temperature 0",
    # arXiv:2405.00263, sections 3.1 and 3.2: an attention block of three square matrices, shared by
    # the heads, and one square matrix a head
    draft=(Draft(by="heads", matrices=((3, 1), (1, 1)), heads=3, depths_per_pass=1),),
    shape=Shape(kind="static_tree", nodes=4, depth=3),
    verify=Verify(rule="match"),
    systems=("Clover",),
    reported=(
        Reported(
            quantity="speedup",
            value=1.45,
            source="arXiv:2405.00263, table 1",
            model="Baichuan-Small 7B",
            batch=4,
            data="creation",
        ),
        Reported(
            quantity="speedup",
            value=1.19,
            source="arXiv:2405.00263, table 1",
            model="Baichuan-Small 7B",
            batch=24,
            data="creation",
        ),
    ),
    assumed=(
        (
            "draft.matrices: the block of one layer over the prompt, about 0.2 B parameters, is"
            " left out"
        ),
        "shape.depth: as many levels as heads",
    ),
)
