"""Speculative decoding: a smaller model drafts a chain, the target verifies it in one pass."""

from costmodel.method import Citation, Method, Reported

METHOD = Method(
    slug="speculative-decoding",
    title="Speculative decoding",
    citation=Citation(
        authors="Leviathan, Kalman, Matias",
        title="Fast Inference from Transformers via Speculative Decoding",
        year=2022,
        arxiv="2211.17192",
    ),
    drafter="draft_model",
    topologies=("chain",),
    verifier="token_rejection",
    exactness="lossless",
    cost_terms=("draft_passes", "verify_tokens", "draft_memory"),
    trace_levels={"chain": 1},
    engines={
        "vllm": "draft_model",
        "sglang": "draft_model",
        "tensorrt-llm": "draft_model",
        "llama.cpp": "draft_model",
        "transformers": "draft_model",
    },
    reported=(
        Reported(
            quantity="speedup",
            value=3.4,
            conditions="T5-XXL 11B drafted by T5-small 77M, TPU-v4, batch 1, greedy, WMT EnDe, K=7",
            source="arXiv:2211.17192, table 2",
        ),
        Reported(
            quantity="speedup",
            value=2.01,
            conditions="Chinchilla 70B drafted by a 4B model, 16 TPU v4, batch 1, greedy, XSum, K=4",
            source="arXiv:2302.01318, table 1",
        ),
    ),
)
