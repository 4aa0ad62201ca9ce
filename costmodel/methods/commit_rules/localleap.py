"""LocalLeap: beside tokens that are sure, neighbours may be a little less sure."""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="localleap",
    title="LocalLeap",
    citation=Citation(
        authors="Kong et al.",
        title="Accelerating Diffusion LLM Inference via Local Determinism Propagation",
        year=2025,
        arxiv="2510.07081",
    ),
    group="commit rules",
    read="code",
    shape=Shape(kind="block", nodes=32),
    refine=Refine(forward="full", commit="neighbours", tokens_per_pass=7.0, canvas_tokens=256),
    systems=("LocalLeap",),
    reported=(
        Reported(
            quantity="speedup",
            value=6.94,
            source="arXiv:2510.07081, abstract",
            relative_to="llada",
            note="throughput, in 14.2 % of the steps",
        ),
        Reported(
            quantity="tokens_per_s",
            value=146.8,
            source="notes of dlmserve",
            model="llada-8b",
            device="RTX 5070",
            batch=8,
            note="110.6 by a threshold",
        ),
    ),
    assumed=("refine.tokens_per_pass: the stated 14.2 % of the steps",),
)
