"""RASD: the tree of a draft model and one retrieved from a corpus are pruned, merged and
verified.
"""

from costmodel.method import Citation, Draft, Method, Shape, Verify

METHOD = Method(
    slug="rasd",
    title="RASD",
    citation=Citation(
        authors="Quan, Feng, Hao, Jiang, Zhang, Wang",
        title="RASD: Retrieval-Augmented Speculative Decoding",
        year=2025,
        arxiv="2503.03434",
    ),
    group="tree drafters",
    read="abstract",
    draft=(Draft(by="head", layers=1, inputs=2, rereads=True, host_s=1e-3),),
    shape=Shape(kind="dynamic_tree", nodes=59, depth=6, width=10, beam=10),
    verify=Verify(rule="fixed_candidates"),
    systems=("RASD",),
    assumed=(
        "draft: the head of EAGLE-2, one of the drafters that it extends",
        "draft.host_s: a millisecond for retrieval and pruning",
        "shape: that of EAGLE-2, retrieved nodes included",
    ),
)
