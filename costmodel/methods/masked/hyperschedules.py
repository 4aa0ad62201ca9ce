"""Hyperschedules: every position has a noise schedule of its own, between diffusion and one token
at a time.
"""

from costmodel.method import Citation, Method, Refine, Shape

METHOD = Method(
    slug="hyperschedules",
    title="Hyperschedules",
    citation=Citation(
        authors="Fathi, Scholak, Noel",
        title="Unifying Autoregressive and Diffusion-Based Sequence Generation",
        year=2025,
        arxiv="2504.06416",
    ),
    group="masked",
    read="abstract",
    shape=Shape(kind="block", nodes=32),
    refine=Refine(forward="block", commit="in_order", tokens_per_pass=2.0, canvas_tokens=32),
    systems=("Hyperschedules",),
    assumed=(
        "shape.nodes: a window of 32 tokens between noise and text",
        "refine.tokens_per_pass: two; the schedule decides",
    ),
)
