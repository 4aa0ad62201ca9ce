"""Sparse-to-Dense: the target drafts with top-k attention and verifies with all of its cache."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify
from costmodel.methods.compression.top_k_attention import METHOD as TOP_K

METHOD = Method(
    slug="sparse-to-dense",
    title="Sparse-to-Dense",
    citation=Citation(
        authors="Zhang et al.",
        title=(
            "Sparse-to-Dense: A Free Lunch for Lossless Acceleration of Video Understanding in LLMs"
        ),
        year=2025,
        arxiv="2505.19155",
    ),
    group="self speculation",
    read="abstract",
    draft=(Draft(by="target", transforms=TOP_K.target, own_cache=False),),
    shape=Shape(kind="chain"),
    verify=Verify(rule="token_rejection"),
    systems=("Sparse-to-Dense (StD)",),
    reported=(
        Reported(
            quantity="speedup", value=1.94, source="arXiv:2505.19155, abstract", note="largest"
        ),
    ),
    assumed=(
        "draft.transforms: a sixteenth of the cached tokens",
        "verify.rule: greedy or by rejection",
    ),
)
