"""Sparse-to-Dense: the target drafts with top-k attention and verifies with all of its cache."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

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
    draft=(Draft(by="target", context_tokens=1024, own_cache=False),),
    shape=Shape(kind="chain", nodes=9),
    verify=Verify(rule="token_rejection"),
    systems=("Sparse-to-Dense (StD)",),
    reported=(
        Reported(
            quantity="speedup",
            value=1.94,
            source="arXiv:2505.19155, abstract",
            model="Qwen2-VL-7B",
            batch=8,
            data="MLVU",
            note="largest; model, batch and data by a note",
        ),
    ),
    assumed=(
        "draft.context_tokens, shape.nodes: 1,024 cached tokens and nine drafted, by a note on the paper",
        "verify.rule: greedy or by rejection",
    ),
)
