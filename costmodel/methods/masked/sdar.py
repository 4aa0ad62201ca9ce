"""SDAR: blocks of four tokens are committed over an exact cache, and one more pass stores each of
them.
"""

from costmodel.method import Citation, Method, Refine, Shape

METHOD = Method(
    slug="sdar",
    title="SDAR",
    citation=Citation(
        authors="Cheng et al.",
        title=(
            "SDAR: A Synergistic Diffusion-AutoRegression Paradigm for Scalable Sequence Generation"
        ),
        year=2025,
        arxiv="2510.06303",
    ),
    group="masked",
    read="code",
    shape=Shape(kind="block", nodes=4),
    refine=Refine(
        forward="block", commit="threshold", tokens_per_pass=1.6, canvas_tokens=4, closing_passes=1
    ),
    assumed=(
        (
            "refine.tokens_per_pass: of LCB with the 8B chat model, as TDAR ran it; it depends on"
            " the text"
        ),
    ),
)
