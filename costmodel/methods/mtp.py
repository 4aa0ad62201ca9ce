"""Multi-token prediction: a layer trained with the target predicts the token after next."""

from costmodel.method import Citation, Method, Reported

METHOD = Method(
    slug="mtp",
    title="Multi-token prediction",
    citation=Citation(authors="DeepSeek-AI", title="DeepSeek-V3 Technical Report", year=2024, arxiv="2412.19437"),
    drafter="mtp",
    topologies=("chain",),
    verifier="token_rejection",
    exactness="lossless",
    cost_terms=("draft_passes", "verify_tokens", "draft_memory"),
    trace_levels={"chain": 1},
    engines={"vllm": "mtp", "sglang": "mtp", "tensorrt-llm": "mtp"},
    reported=(
        Reported(
            quantity="speedup",
            value=1.8,
            conditions="DeepSeek-V3, K=1, second token accepted 85 to 90 %",
            source="arXiv:2412.19437, section 5.4.3",
        ),
    ),
)
