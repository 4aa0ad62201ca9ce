"""Window-Diffusion: an active window is refined; the rest is computed anew only now and then."""

from costmodel.method import Citation, Method, Refine, Shape

METHOD = Method(
    slug="window-diffusion",
    title="Window-Diffusion",
    citation=Citation(
        authors="Zuo et al.",
        title=(
            "Window-Diffusion: Accelerating Diffusion Language Model Inference with Windowed Token"
            " Pruning and Caching"
        ),
        year=2026,
        arxiv="2601.20332",
    ),
    group="masked",
    read="code",
    shape=Shape(kind="block", nodes=32),
    refine=Refine(
        forward="block", commit="static", tokens_per_pass=1.0, canvas_tokens=64, full_every=32
    ),
    systems=("Window-Diffusion",),
    assumed=(
        (
            "shape.nodes: 16 active tokens and those decoded since the last of the full passes, one"
            " in 32: 16 on average"
        ),
        "refine.canvas_tokens: its window of 64",
    ),
)
