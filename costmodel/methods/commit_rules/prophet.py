"""Prophet: once the answer is sure by a margin, all that is left is committed."""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="prophet",
    title="Prophet",
    citation=Citation(
        authors="Li, Zhou, Muhtar, Yin, Yan, Shen, Liang, Vosoughi, Liu",
        title="Diffusion Language Models Know the Answer Before Decoding",
        year=2025,
        arxiv="2508.19982",
    ),
    group="commit rules",
    read="code",
    shape=Shape(kind="block", nodes=32),
    refine=Refine(forward="full", commit="gap", tokens_per_pass=3.4, canvas_tokens=256),
    systems=("Prophet",),
    reported=(
        Reported(
            quantity="speedup",
            value=3.4,
            source="arXiv:2508.19982, abstract",
            relative_to="llada",
            note="of steps, largest",
        ),
    ),
    assumed=(
        "refine.tokens_per_pass: the stated share of the steps",
        "refine.commit: the margin of the two likeliest tokens stands for a filter",
    ),
)
