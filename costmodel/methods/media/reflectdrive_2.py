"""ReflectDrive-2: the path of a car is drafted and edited in a few masked passes behind a shared
prefix.
"""

from costmodel.method import Citation, Method, Refine, Shape

METHOD = Method(
    slug="reflectdrive-2",
    title="ReflectDrive-2",
    citation=Citation(
        title=(
            "ReflectDrive-2: Reinforcement-Learning-Aligned Self-Editing for Discrete Diffusion"
            " Driving"
        ),
        year=2026,
        arxiv="2605.04647",
    ),
    group="media",
    read="abstract",
    shape=Shape(kind="block", nodes=16),
    refine=Refine(forward="block", commit="static", tokens_per_pass=4.0, canvas_tokens=16),
    systems=("ReflectDrive-2",),
    assumed=(
        "shape.nodes: 16 tokens of a path",
        "refine.tokens_per_pass: four passes; edits come on top",
    ),
)
