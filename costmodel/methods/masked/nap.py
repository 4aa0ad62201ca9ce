"""NAP: streams of reasoning share a fixed number of tokens that every pass commits."""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="nap",
    title="NAP",
    citation=Citation(
        authors="Li, Muhtar, Yin, Chen, Liu",
        title=(
            "Why Diffusion Language Models Struggle with Truly Parallel (Non-Autoregressive)"
            " Decoding?"
        ),
        year=2026,
        arxiv="2602.23225",
    ),
    group="masked",
    read="code",
    # pixeli99/NAP, README: 1,024 tokens in 256, 336, 512 or 1,024 steps
    shape=Shape(kind="block", nodes=64),
    refine=Refine(forward="full", commit="static", tokens_per_pass=3.0, canvas_tokens=1024),
    systems=("NAP",),
    reported=(
        Reported(
            quantity="tokens_per_step",
            value=3.0,
            source="README of pixeli99/NAP",
            model="llada-8b",
            data="GSM8K",
            note="336 steps for 1,024 tokens",
        ),
    ),
    assumed=(
        "refine.tokens_per_pass: three, of budgets from one to four",
        "shape.nodes: 64; the budget alone decides",
    ),
)
