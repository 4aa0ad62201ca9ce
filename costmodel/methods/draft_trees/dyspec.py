"""DySpec: a draft model's likeliest nodes make the tree, best first, as long as their path probability suffices."""

from costmodel.method import Citation, Draft, Method, Shape, Verify

METHOD = Method(
    slug="dyspec",
    title="DySpec",
    citation=Citation(
        authors="Xiong et al.",
        title="DySpec: Faster Speculative Decoding with Dynamic Token Tree Structure",
        year=2024,
        arxiv="2410.11744",
    ),
    group="draft trees",
    read="paper",
    draft=(Draft(by="model"),),
    shape=Shape(kind="dynamic_tree", nodes=64, least_probability=1 / 64),
    verify=Verify(rule="without_replacement"),
    systems=("DySpec",),
    assumed=("shape.nodes and shape.least_probability: set by hand for every run there, up to 768 nodes",),
)
