"""Memory layers: a few rows of a large trained table are looked up for every token."""

from costmodel.method import Citation, Method

METHOD = Method(
    slug="memory-layers",
    title="Memory layers",
    citation=Citation(
        authors="Berges et al.", title="Memory Layers at Scale", year=2024, arxiv="2412.09764"
    ),
    group="architectures",
    read="abstract",
    out_of_scope=(
        "a layer of models trained with it, of which none is shipped; a token reads a few rows of"
        " its table, less than the constants of any device resolve"
    ),
    systems=("Memory Layers",),
)
