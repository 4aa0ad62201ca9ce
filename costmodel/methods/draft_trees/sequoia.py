"""Sequoia: a draft model fills the static tree that a dynamic programme found best for its
acceptance.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="sequoia",
    title="Sequoia",
    citation=Citation(
        authors="Chen, May, Svirschevski, Huang, Ryabinin, Jia, Chen",
        title="Sequoia: Scalable, Robust, and Hardware-aware Speculative Decoding",
        year=2024,
        arxiv="2402.12374",
    ),
    group="draft trees",
    read="paper",
    draft=(Draft(by="model"),),
    shape=Shape(
        kind="static_tree", nodes=127, depth=9
    ),  # published as 128 and 10 with the root counted
    verify=Verify(rule="without_replacement"),
    systems=("Sequoia",),
    reproduced=(
        "tests/costmodel/optimizers/trees/test_published_trees.py::test_equal_to_published_optima_up_to_768_nodes",
    ),
    reported=(
        Reported(
            quantity="tokens_per_step",
            value=5.08,
            source="arXiv:2402.12374, table 1",
            model="llama-2-7b",
            draft="llama-68m",
            device="a100-pcie-80",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="C4",
            draft_tokens=127,
        ),
        Reported(
            quantity="speedup",
            value=4.04,
            source="arXiv:2402.12374, table 1",
            model="llama-2-7b",
            draft="llama-68m",
            device="a100-pcie-80",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="C4",
            tokens_per_step=5.08,
            draft_tokens=127,
        ),
    ),
)
