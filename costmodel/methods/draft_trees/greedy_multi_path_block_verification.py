"""Greedy multi-path block verification: several drafted chains are judged together and whole."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="greedy-multi-path-block-verification",
    title="Greedy multi-path block verification",
    citation=Citation(
        authors="Thomas, Pal",
        title="Greedy Multi-Path Block Verification for Faster Decoding in Speculative Sampling",
        year=2026,
        arxiv="2602.16961",
    ),
    group="draft trees",
    read="abstract",
    draft=(Draft(by="model"),),
    shape=Shape(kind="static_tree"),
    verify=Verify(rule="multi_path_block"),
    systems=("GBV / block verification",),
    reported=(
        Reported(
            quantity="speedup",
            value=1.15,
            source="arXiv:2602.16961, abstract",
            model="llama-3-70b",
            relative_to="other verification of several paths",
            note="throughput, at least",
        ),
    ),
    assumed=("shape.nodes: paths and their lengths are not stated; searched",),
)
