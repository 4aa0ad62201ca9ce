"""CD4LM: a distilled model commits at most four sure tokens a pass; ends of text are held back."""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="cd4lm",
    title="CD4LM",
    citation=Citation(
        authors="Liang et al.",
        title="CD4LM: Consistency Distillation and aDaptive Decoding for Diffusion Language Models",
        year=2026,
        arxiv="2601.02236",
    ),
    group="commit rules",
    read="code",
    shape=Shape(kind="block", nodes=32),
    refine=Refine(forward="full", commit="capped", tokens_per_pass=3.6, canvas_tokens=256),
    systems=("CD4LM",),
    reported=(
        Reported(
            quantity="speedup",
            value=5.18,
            source="arXiv:2601.02236, abstract",
            model="llada-8b",
            data="GSM8K",
            relative_to="llada",
        ),
        Reported(
            quantity="speedup",
            value=3.62,
            source="arXiv:2601.02236, abstract",
            relative_to="llada",
            note="mean",
        ),
    ),
    assumed=("refine.tokens_per_pass: the stated mean speedup; the code's cap is four",),
)
