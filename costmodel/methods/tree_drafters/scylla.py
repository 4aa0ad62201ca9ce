"""Scylla: an EAGLE-like head whose size and training follow scaling laws of acceptance."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="scylla",
    title="Scylla",
    citation=Citation(
        authors="Yan et al.",
        title="Scaling Laws for Speculative Decoding",
        year=2025,
        arxiv="2505.07858",
    ),
    group="tree drafters",
    read="abstract",
    draft=(Draft(by="head", layers=2, inputs=2, rereads=True),),
    shape=Shape(kind="dynamic_tree", nodes=59, depth=6, width=10, beam=10),
    verify=Verify(rule="fixed_candidates"),
    systems=("Scylla (Scaling Laws for Spec Decoding)",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.0,
            source="arXiv:2505.07858, abstract",
            relative_to="eagle-2",
            note="throughput",
        ),
    ),
    assumed=(
        (
            "draft.layers: two; how acceptance grows with the head and its training is an input,"
            " not predicted"
        ),
        "shape: that of EAGLE-2",
    ),
)
