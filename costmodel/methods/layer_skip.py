"""Layer skip: the target drafts with some of its middle layers left out, and verifies with all of them."""

from costmodel.method import Citation, Method, Reported

METHOD = Method(
    slug="layer-skip",
    title="Draft & Verify",
    citation=Citation(
        authors="Zhang, Wang, Li, Shou, Chen, Chen, Mehrotra",
        title="Draft & Verify: Lossless Large Language Model Acceleration via Self-Speculative Decoding",
        year=2023,
        arxiv="2309.08168",
    ),
    drafter="early_exit",
    topologies=("chain", "tree"),
    verifier="token_rejection",
    exactness="lossless",
    cost_terms=("target_layers", "verify_tokens", "draft_memory"),
    trace_levels={"chain": 1, "tree": 2},
    engines={},
    reported=(
        Reported(
            quantity="speedup",
            value=1.99,
            conditions="LLaMA-2 and its fine-tuned variants, largest of the tasks",
            source="arXiv:2309.08168, abstract",
        ),
    ),
)
