"""Draft refinement: an n-gram or a small neural model rescores what blockwise heads propose."""

from costmodel.method import Citation, Draft, Method, Shape, Verify

METHOD = Method(
    slug="blockwise-draft-refinement",
    title="Refined blockwise drafts",
    citation=Citation(
        authors="Kim, Suresh, Papineni, Riley, Kumar, Benton",
        title="Exploring and Improving Drafts in Blockwise Parallel Decoding",
        year=2024,
        arxiv="2404.09221",
    ),
    group="heads",
    read="abstract",
    exact_when="temperature 0",
    draft=(Draft(by="heads", matrices=((1, 1),), heads=8, depths_per_pass=0, host_s=0.5e-3),),
    shape=Shape(kind="chain", nodes=8),
    verify=Verify(rule="match"),
    systems=("Blockwise drafts refined (n-gram/neural)",),
    assumed=(
        "draft.heads, shape.nodes: eight",
        "draft.host_s: half a millisecond of rescoring; how much more is accepted is an input",
    ),
)
