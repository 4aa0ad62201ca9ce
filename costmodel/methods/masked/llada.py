"""LLaDA: a masked model computes prompt and canvas in every pass, and commits an even share of a
block in each.
"""

from costmodel.method import Citation, Method, Refine, Shape

METHOD = Method(
    slug="llada",
    title="LLaDA, static schedule",
    citation=Citation(
        authors="Nie et al.", title="Large Language Diffusion Models", year=2025, arxiv="2502.09992"
    ),
    group="masked",
    read="code",
    shape=Shape(kind="block", nodes=32),
    refine=Refine(forward="full", commit="static", tokens_per_pass=1.0, canvas_tokens=256),
    assumed=("refine.canvas_tokens: 256, the setting that later papers compare with",),
)
