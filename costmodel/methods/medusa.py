"""Medusa: extra output heads each guess one later token; the guesses form a static tree."""

from costmodel.method import Citation, Method, Reported

METHOD = Method(
    slug="medusa",
    title="Medusa",
    citation=Citation(
        authors="Cai, Li, Geng, Peng, Lee, Chen, Dao",
        title="Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads",
        year=2024,
        arxiv="2401.10774",
    ),
    drafter="medusa",
    topologies=("chain", "tree"),
    verifier="typical_acceptance",
    exactness="lossy",
    cost_terms=("extra_heads", "verify_tokens", "draft_memory"),
    trace_levels={"chain": 1, "tree": 2},
    engines={"vllm": "medusa", "tensorrt-llm": "medusa"},
    reported=(
        Reported(
            quantity="tokens_per_step",
            value=2.59,
            conditions="Vicuna-13B, A100, fp16, batch 1, greedy, MT-bench, static tree of 63 nodes",
            source="arXiv:2503.01840, table 1",
        ),
        Reported(
            quantity="speedup",
            value=2.07,
            conditions="Vicuna-13B, A100, fp16, batch 1, greedy, MT-bench, static tree of 63 nodes",
            source="arXiv:2503.01840, table 1",
        ),
    ),
)
