"""Speculative decoding for image models: a small text-only model drafts without the image."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="multimodal-speculative-decoding",
    title="Speculative decoding for multimodal models",
    citation=Citation(
        authors="Gagrani, Goel, Jeon, Park, Lee, Lott",
        title="On Speculative Decoding for Multimodal Large Language Models",
        year=2024,
        arxiv="2404.08856",
    ),
    group="vision",
    read="abstract",
    draft=(Draft(by="model", context_ratio=0.15),),
    shape=Shape(kind="chain"),
    verify=Verify(rule="token_rejection"),
    systems=("SD for multimodal (LLaVA 7B)",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.37,
            source="arXiv:2404.08856, abstract",
            model="LLaVA 7B",
            draft="115M",
            note="analytic, of a memory-bound target",
        ),
    ),
    assumed=(
        "draft.context_ratio: 576 tokens of an image beside 100 of text, which alone are read",
    ),
)
