"""EAGLE-3: a one-layer head drafts from the target's low, middle and high features."""

from costmodel.method import Citation, Method, Reported

METHOD = Method(
    slug="eagle-3",
    title="EAGLE-3",
    citation=Citation(
        authors="Li, Wei, Zhang, Zhang",
        title="EAGLE-3: Scaling up Inference Acceleration of Large Language Models via Training-Time Test",
        year=2025,
        arxiv="2503.01840",
    ),
    drafter="eagle3",
    topologies=("chain", "tree"),
    verifier="token_rejection",
    exactness="lossless",
    cost_terms=("draft_passes", "verify_tokens", "draft_memory"),
    trace_levels={"chain": 1, "tree": 2},
    engines={"vllm": "eagle3", "sglang": "eagle3", "tensorrt-llm": "eagle3", "llama.cpp": "eagle3"},
    reported=(
        Reported(
            quantity="tokens_per_step",
            value=6.13,
            conditions="Llama-3.1-8B-Instruct, A100, fp16, batch 1, greedy, MT-bench, dynamic tree",
            source="arXiv:2503.01840, table 1",
        ),
        Reported(
            quantity="speedup",
            value=1.81,
            conditions="Llama-3.1-8B-Instruct, H100, SGLang, batch 2, MT-bench, K=3",
            source="arXiv:2503.01840, table 3",
        ),
        Reported(
            quantity="speedup",
            value=1.32,
            conditions="Llama-3.1-8B-Instruct, H100, SGLang, batch 32, MT-bench, K=3",
            source="arXiv:2503.01840, table 3",
        ),
    ),
)
