"""REST: the longest match in a stored corpus yields a tree of what followed it there."""

from costmodel.method import Citation, Draft, Method, Shape, Verify

METHOD = Method(
    slug="rest",
    title="REST",
    citation=Citation(
        authors="He, Zhong, Cai, Lee, He",
        title="REST: Retrieval-Based Speculative Decoding",
        year=2023,
        arxiv="2311.08252",
    ),
    group="model free",
    read="code",
    draft=(Draft(by="lookup", may_propose_nothing=True, host_s=1e-3),),
    shape=Shape(kind="static_tree", nodes=64, depth=10),
    verify=Verify(rule="fixed_candidates"),
    recorded=("catalogue/smollm2-135m--rest--greedy",),
    assumed=(
        "draft.host_s: a millisecond of search in the corpus",
        "shape: a tree made anew of at most 64 tokens of ten levels",
    ),
)
