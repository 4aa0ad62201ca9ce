"""SSD: a masked model confirms its own drafts of later states in a tree, so that nothing
changes.
"""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="ssd",
    title="Self speculative decoding for diffusion",
    citation=Citation(
        authors="Gao, Ji, Wang, Qi, Xu, Zhang",
        title="Self Speculative Decoding for Diffusion Large Language Models",
        year=2025,
        arxiv="2510.04147",
    ),
    group="commit rules",
    read="abstract",
    exact_when="against the same model that commits one token a pass",
    shape=Shape(kind="block", nodes=8),
    refine=Refine(
        forward="block",
        commit="self_verified",
        tokens_per_pass=4.0,
        full_passes=1,
        copies=4,
        canvas_tokens=256,
    ),
    systems=("SSD",),
    reported=(
        Reported(
            quantity="speedup",
            value=3.46,
            source="arXiv:2510.04147, abstract",
            relative_to="one token a pass",
            note="largest",
        ),
    ),
    assumed=(
        "shape.nodes: blocks of eight, say its reviews at ICLR 2026",
        "refine.copies: four states at once",
        "refine.tokens_per_pass: four, a little more than the stated speedup",
    ),
)
