"""Latent refinement decoding: open tokens carry a mix of candidates from pass to pass before any is
fixed.
"""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="latent-refinement-decoding",
    title="Latent refinement decoding",
    citation=Citation(
        authors="Zhu et al.",
        title=(
            "Latent Refinement Decoding: Enhancing Diffusion-Based Language Models by Refining"
            " Belief States"
        ),
        year=2025,
        arxiv="2510.11052",
    ),
    group="commit rules",
    read="abstract",
    shape=Shape(kind="block", nodes=32),
    refine=Refine(forward="full", commit="threshold", tokens_per_pass=5.0, canvas_tokens=256),
    systems=("LRD",),
    reported=(
        Reported(
            quantity="speedup",
            value=10.6,
            source="arXiv:2510.11052, abstract",
            relative_to="one token a pass",
            note="largest",
        ),
    ),
    assumed=(
        "refine.tokens_per_pass: five; soft tokens cannot be replayed from recordings of others",
    ),
)
