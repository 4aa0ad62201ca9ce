"""Recursive speculative decoding: siblings of a draft tree are drawn without replacement and tried
in turn.
"""

from costmodel.method import Citation, Draft, Method, Shape, Verify

METHOD = Method(
    slug="recursive-speculative-decoding",
    title="Recursive speculative decoding",
    citation=Citation(
        authors="Jeon, Gagrani, Goel, Park, Lee, Lott",
        title=(
            "Recursive Speculative Decoding: Accelerating LLM Inference via Sampling Without"
            " Replacement"
        ),
        year=2024,
        arxiv="2402.14160",
    ),
    group="draft trees",
    read="abstract",
    draft=(Draft(by="model"),),
    shape=Shape(kind="static_tree"),
    verify=Verify(rule="without_replacement"),
    systems=("RSD (recursive)",),
    assumed=(
        "shape: constant branching; trees by stochastic beam search are drawn per step there",
        "shape.nodes: not stated; searched",
    ),
)
