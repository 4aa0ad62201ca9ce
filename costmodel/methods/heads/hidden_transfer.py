"""Hidden transfer: pseudo states of later tokens ride through the target's upper layers."""

from costmodel.method import Citation, Draft, Method, Shape, Verify

METHOD = Method(
    slug="hidden-transfer",
    title="Hidden Transfer",
    citation=Citation(
        authors="Wu, Liu, Gong, Wang, Li, Wang, Cai, Zhao",
        title=(
            "Parallel Decoding via Hidden Transfer for Lossless Large Language Model Acceleration"
        ),
        year=2024,
        arxiv="2404.12022",
    ),
    group="heads",
    read="abstract",
    exact_when="temperature 0",
    draft=(Draft(by="rows"),),
    shape=Shape(kind="static_tree", nodes=32, depth=3, riding=99),
    verify=Verify(rule="match"),
    systems=("Hidden Transfer",),
    assumed=(
        "shape.nodes, shape.depth: not stated",
        (
            "shape.riding: three pseudo tokens behind each of 33; they are billed for all layers,"
            " though they enter only later"
        ),
    ),
)
