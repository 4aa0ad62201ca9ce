"""Prompt lookup: the tokens that followed the latest occurrence of the current n-gram are the draft."""

from costmodel.method import Citation, Method, Reported

METHOD = Method(
    slug="n-gram",
    title="Prompt lookup decoding",
    citation=Citation(
        authors="Saxena",
        title="Prompt Lookup Decoding",
        year=2023,
        url="https://github.com/apoorvumang/prompt-lookup-decoding",
    ),
    drafter="ngram",
    topologies=("chain",),
    verifier="token_rejection",
    exactness="lossless",
    cost_terms=("host", "verify_tokens"),
    trace_levels={"chain": 1},
    engines={
        "vllm": "ngram",
        "sglang": "ngram",
        "tensorrt-llm": "ngram",
        "llama.cpp": "ngram",
        "transformers": "ngram",
    },
    reported=(
        Reported(
            quantity="speedup",
            value=1.62,
            conditions="Vicuna-7B, A100-80GB, fp16, batch 1, greedy, GovReport",
            source="arXiv:2502.17421, table 1",
        ),
        Reported(
            quantity="speedup",
            value=0.89,
            conditions="Vicuna-7B, A100-80GB, fp16, batch 1, greedy, QMSum",
            source="arXiv:2502.17421, table 1",
        ),
    ),
)
