"""S2D: sorted sub-models of one draft model serve targets of several sizes."""

from costmodel.method import Citation, Draft, Method, Shape, Verify

METHOD = Method(
    slug="s2d",
    title="S2D",
    citation=Citation(
        authors="Kavehzadeh et al.",
        title=(
            "S2D: Sorted Speculative Decoding For More Efficient Deployment of Nested Large"
            " Language Models"
        ),
        year=2024,
        arxiv="2407.01955",
    ),
    group="draft models",
    read="abstract",
    draft=(Draft(by="model", layers=0.5),),
    shape=Shape(kind="chain"),
    verify=Verify(rule="token_rejection"),
    systems=("S2D",),
    assumed=(
        (
            "draft.layers: half of the draft model; which sub-model drafts is chosen per target and"
            " token there"
        ),
    ),
)
