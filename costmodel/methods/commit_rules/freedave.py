"""FreeDave: a masked model drafts its next states and confirms the longest consistent run of
them.
"""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="freedave",
    title="FreeDave",
    citation=Citation(
        authors="Wu, Zhang",
        title=(
            "Free Draft-and-Verification: Toward Lossless Parallel Decoding for Diffusion Large"
            " Language Models"
        ),
        year=2025,
        arxiv="2510.00294",
    ),
    group="commit rules",
    read="code",
    exact_when="against the same model that commits one token a pass",
    shape=Shape(kind="block", nodes=32),
    refine=Refine(
        forward="block",
        commit="self_verified",
        tokens_per_pass=3.0,
        full_passes=1,
        copies=4,
        canvas_tokens=256,
    ),
    systems=("FreeDave",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.8,
            source="arXiv:2510.00294, abstract",
            data="mathematics",
            relative_to="one token a pass",
            note="throughput, largest",
        ),
    ),
    assumed=(
        "refine.copies: four drafts, its default",
        "refine.tokens_per_pass: three, a little more than the stated speedup",
    ),
)
