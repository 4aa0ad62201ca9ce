"""Stack-and-delay: codebooks of music are decoded in a pattern between one by one and all at
once.
"""

from costmodel.method import Citation, Method, Refine, Shape

METHOD = Method(
    slug="stack-and-delay",
    title="Stack-and-delay",
    citation=Citation(
        title="Stack-and-Delay: a new codebook pattern for music generation",
        year=2023,
        arxiv="2309.08804",
    ),
    group="media",
    read="abstract",
    shape=Shape(kind="block", nodes=64),
    refine=Refine(forward="group", commit="static", tokens_per_pass=4.0, canvas_tokens=64),
    systems=("Stack-and-delay",),
    assumed=(
        "refine.tokens_per_pass: four codebooks a pass",
        "shape.nodes: sixteen frames",
    ),
)
