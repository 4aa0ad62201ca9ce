"""Memory layers: a few rows of a large trained table are looked up for every token."""

from costmodel.method import Citation, Method

METHOD = Method(
    slug="memory-layers",
    title="Memory layers",
    citation=Citation(
        authors="Berges et al.", title="Memory Layers at Scale", year=2024, arxiv="2412.09764"
    ),
    group="architectures",
    read="code",
    # facebookresearch/memory, apps/main/configs/pk_7b.yaml: 32 rows for each of four heads, in three of 32
    # layers: 1 MB of each
    out_of_scope=(
        "a layer of models trained with it, of which none is shipped; a token reads 128 rows of"
        " its table, less than the constants of any device resolve"
    ),
    systems=("Memory Layers",),
)
