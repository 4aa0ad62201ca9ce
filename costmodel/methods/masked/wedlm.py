"""WeDLM: a causal window of 16 commits from the left; what is filled leaves to an exact cache."""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="wedlm",
    title="WeDLM",
    citation=Citation(
        authors="Liu et al.",
        title=(
            "WeDLM: Reconciling Diffusion Language Models with Standard Causal Attention for Fast"
            " Inference"
        ),
        year=2025,
        arxiv="2512.22737",
    ),
    group="masked",
    read="code",
    shape=Shape(kind="block", nodes=16),
    refine=Refine(forward="block", commit="in_order", tokens_per_pass=3.0, canvas_tokens=16),
    systems=("WeDLM",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.0,
            source="README of Tencent/WeDLM",
            model="WeDLM-8B-Instruct",
            data="code",
            relative_to="Qwen3-8B in vLLM",
            note="2 to 3 are stated",
        ),
    ),
    assumed=("refine.tokens_per_pass: three; it depends on the text",),
)
