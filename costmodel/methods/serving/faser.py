"""FASER: drafts are verified in chunks while drafting goes on beside them, and rejected requests
leave early.
"""

from costmodel.method import Batch, Citation, Draft, Method, Reported, Shape, Stop, Verify

METHOD = Method(
    slug="faser",
    title="FASER",
    citation=Citation(
        authors="Chen et al.",
        title=(
            "FASER: Fine-Grained Phase Management for Speculative Decoding in Dynamic LLM Serving"
        ),
        year=2026,
        arxiv="2604.20503",
    ),
    group="serving",
    read="abstract",
    draft=(Draft(by="model"),),
    shape=Shape(kind="chain"),
    stop=Stop(rule="ema"),
    verify=Verify(rule="token_rejection"),
    batch=Batch(parts=2, prunes=True),
    systems=("FASER",),
    reported=(
        Reported(
            quantity="speedup",
            value=1.53,
            source="abstract",
            relative_to="vLLM",
            note="throughput, largest",
        ),
    ),
    assumed=(
        "batch.parts: two chunks",
        "batch.interference_ratio: none",
        "stop: by our controller",
    ),
)
