"""M2R2: residual streams of several rates let early layers draft well; the rest verifies."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="m2r2",
    title="M2R2",
    citation=Citation(
        authors="Bhendawade, Najibi, Naik, Belousova",
        title="M2R2: Mixture of Multi-Rate Residuals for Efficient Transformer Inference",
        year=2025,
        arxiv="2502.02040",
    ),
    group="self speculation",
    read="abstract",
    exact_when="temperature 0",
    draft=(Draft(by="target", layers=0.25, matrices=((1, 1),), own_cache=False),),
    shape=Shape(kind="chain", nodes=4),
    verify=Verify(rule="match", remaining_layers=True),
    systems=("M2R2",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.8,
            source="arXiv:2502.02040, abstract",
            data="MT-Bench",
            note="largest, self-speculative",
        ),
    ),
    assumed=(
        (
            "draft.layers, draft.matrices: a quarter of the layers, and one matrix for the"
            " accelerator adapters"
        ),
        "shape.nodes: four tokens",
        (
            "draft: its form without verification, and experts fetched before they are needed, are"
            " left out"
        ),
    ),
)
