"""CreditDecoding: tokens that were foreseen in earlier passes need less confidence in this one."""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="creditdecoding",
    title="CreditDecoding",
    citation=Citation(
        authors="Wang et al.",
        title=(
            "CreditDecoding: Accelerating Parallel Decoding in Diffusion Large Language Models with"
            " Trace Credits"
        ),
        year=2025,
        arxiv="2510.06133",
    ),
    group="commit rules",
    read="code",
    shape=Shape(kind="block", nodes=64),
    refine=Refine(
        forward="full",
        commit="credit",
        tokens_per_pass=5.48,
        canvas_tokens=256,
        vocab_state_bytes=4.0,
    ),
    systems=("CreditDecoding",),
    reported=(
        Reported(
            quantity="speedup",
            value=5.48,
            source="arXiv:2510.06133, abstract",
            model="llada-8b",
            relative_to="llada",
            note="mean of eight benchmarks",
        ),
    ),
    assumed=(
        "refine.tokens_per_pass: the stated speedup",
        (
            "refine.commit: replayed with credit of the likeliest token alone, which is all that a"
            " trace names"
        ),
        "refine.vocab_state_bytes: credits in 32 bits",
    ),
)
