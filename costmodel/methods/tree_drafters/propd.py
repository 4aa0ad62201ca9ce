"""ProPD: branches of a Medusa-like tree that the first layers find hopeless leave the pass
early.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="propd",
    title="ProPD",
    citation=Citation(
        authors="Zhong, Yang, Li, Gong, Wang, Huang",
        title="ProPD: Dynamic Token Tree Pruning and Generation for LLM Parallel Decoding",
        year=2024,
        arxiv="2402.13485",
    ),
    group="tree drafters",
    read="abstract",
    exact_when="temperature 0",
    draft=(Draft(by="heads", matrices=((1, 1),), heads=4, depths_per_pass=0),),
    shape=Shape(kind="dynamic_tree", nodes=63, depth=4, width=10),
    verify=Verify(rule="match", pruned_after=0.1, pruned_ratio=0.5),
    systems=("ProPD",),
    reported=(
        Reported(
            quantity="speedup",
            value=1.1,
            source="arXiv:2402.13485, abstract",
            relative_to="other decoding with trees",
            note="1.1 to 3.2 are stated",
        ),
    ),
    assumed=(
        "draft, shape: those of Medusa",
        (
            "verify.pruned_after, verify.pruned_ratio: half of the nodes leave after a tenth of the"
            " layers"
        ),
    ),
)
