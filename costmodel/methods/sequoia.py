"""Sequoia: a draft model fills the static tree that a dynamic programme found best for its acceptance."""

from costmodel.method import Citation, Method, Reported

METHOD = Method(
    slug="sequoia",
    title="Sequoia",
    citation=Citation(
        authors="Chen, May, Svirschevski, Huang, Ryabinin, Jia, Chen",
        title="Sequoia: Scalable, Robust, and Hardware-aware Speculative Decoding",
        year=2024,
        arxiv="2402.12374",
    ),
    drafter="draft_model",
    topologies=("tree",),
    verifier="without_replacement",
    exactness="lossless",
    cost_terms=("draft_passes", "verify_tokens", "draft_memory"),
    trace_levels={"tree": 2},
    engines={},
    reported=(
        Reported(
            quantity="tokens_per_step",
            value=5.08,
            conditions="Llama2-7B drafted by llama-68m, A100-PCIe-80GB, fp16, batch 1, greedy, C4, 128 nodes",
            source="arXiv:2402.12374, table 1",
        ),
        Reported(
            quantity="speedup",
            value=4.04,
            conditions="Llama2-7B drafted by llama-68m, A100-PCIe-80GB, fp16, batch 1, greedy, C4, 128 nodes",
            source="arXiv:2402.12374, table 1",
        ),
    ),
)
