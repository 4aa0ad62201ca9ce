"""MSD: an EAGLE-like head treats tokens of images and of text apart while it drafts."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="msd",
    title="MSD",
    citation=Citation(
        authors="Lin, Lin, Zeng, Ji",
        title="Speculative Decoding Reimagined for Multimodal Large Language Models",
        year=2025,
        arxiv="2505.14260",
    ),
    group="vision",
    read="code",
    # Lyn-Lucy/MSD, EAGLE/eagle/model/cnets.py: one layer behind a matrix over embedding and feature;
    # ea_model.py: depth 5 behind a first level, ten children
    draft=(Draft(by="head", layers=1, inputs=2, rereads=True),),
    shape=Shape(kind="dynamic_tree", nodes=59, depth=6, width=10, beam=10),
    verify=Verify(rule="fixed_candidates"),
    systems=("MSD",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.29,
            source="arXiv:2505.14260, abstract",
            model="LLaVA-1.5-7B",
        ),
    ),
    assumed=(
        "draft: tokens of images enter without the fusing matrix; the difference is not priced",
        "shape.nodes: its code takes 39 to 59 by timing the device; the most of them",
    ),
)
