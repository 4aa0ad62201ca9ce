"""Early exit: the target's own first layers draft, all of its layers verify."""

from costmodel.method import Citation, Method, Reported

METHOD = Method(
    slug="early-exit",
    title="Kangaroo",
    citation=Citation(
        authors="Liu, Tang, Liu, Ni, Tang, Han, Wang",
        title="Kangaroo: Lossless Self-Speculative Decoding via Double Early Exiting",
        year=2024,
        arxiv="2404.18911",
    ),
    drafter="early_exit",
    topologies=("chain", "tree"),
    verifier="greedy_match",
    exactness="lossless",
    cost_terms=("target_layers", "verify_tokens", "draft_memory"),
    trace_levels={"chain": 1, "tree": 2},
    engines={"transformers": "early_exit"},
    reported=(
        Reported(
            quantity="speedup",
            value=1.68,
            conditions="Vicuna, exit after layer 2 with an adapter, Spec-Bench, largest of its tasks",
            source="arXiv:2404.18911, abstract",
        ),
    ),
)
