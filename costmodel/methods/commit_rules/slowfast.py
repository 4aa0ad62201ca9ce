"""SlowFast: slow passes look how far a block can be filled, fast ones fill it up to there."""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="slowfast",
    title="SlowFast sampling",
    citation=Citation(
        authors="Wei, Zhang, Liu, Liu, Zhang",
        title=(
            "Accelerating Diffusion Large Language Models with SlowFast Sampling: The Three Golden"
            " Principles"
        ),
        year=2025,
        arxiv="2506.10848",
    ),
    group="commit rules",
    read="code",
    shape=Shape(kind="block", nodes=128),
    refine=Refine(forward="full", commit="phases", tokens_per_pass=5.0, canvas_tokens=128),
    systems=("SlowFast",),
    reported=(
        Reported(
            quantity="speedup",
            value=15.63,
            source="arXiv:2506.10848, abstract",
            model="llada-8b",
            relative_to="llada",
            note="largest",
        ),
    ),
    assumed=(
        "refine.tokens_per_pass: five; of the speedups the abstract states the largest alone",
        (
            "refine.forward: its fast passes compute nothing behind the span after their first one;"
            " billed as whole"
        ),
        "shape.nodes: 128, the default of its code, as is the canvas",
    ),
)
