"""SpecTr-GBV: several chains, drawn independently, are judged together and whole."""

from costmodel.method import Citation, Draft, Method, Shape, Verify

METHOD = Method(
    slug="spectr-gbv",
    title="SpecTr-GBV",
    citation=Citation(
        authors="Lin, Sheng, Cai, Zhou",
        title="SpecTr-GBV: Multi-Draft Block Verification Accelerating Speculative Decoding",
        year=2026,
        arxiv="2604.25925",
    ),
    group="draft trees",
    read="abstract",
    draft=(Draft(by="model"),),
    shape=Shape(kind="static_tree"),
    verify=Verify(rule="multi_path_block"),
    systems=("SpecTr-GBV",),
    assumed=("shape.nodes: chains and their lengths are not stated there; searched",),
)
