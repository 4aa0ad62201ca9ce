"""OPT-Tree: a beam of draft nodes grows level by level, as long as a level adds enough expected
tokens.
"""

from costmodel.method import Citation, Draft, Method, Shape, Stop, Verify

METHOD = Method(
    slug="opt-tree",
    title="OPT-Tree",
    citation=Citation(
        authors="Wang, Su, Li, Xia, Ye, Duan, Wang, Zhang",
        title="OPT-Tree: Speculative Decoding with Adaptive Draft Tree Structure",
        year=2024,
        arxiv="2406.17276",
    ),
    group="tree drafters",
    read="code",
    draft=(Draft(by="model"),),
    # Jikai0Wang/OPT-Tree, README: 60 nodes, threshold 0.5, max_depth 10, of which opt_classic/tree.py
    # drafts the last level and leaves it out
    shape=Shape(kind="dynamic_tree", nodes=60, depth=9, beam=60),
    stop=Stop(rule="gain", at=0.5),
    verify=Verify(rule="match"),
    assumed=("shape: the README's evaluation; functions of the code default to 50 nodes",),
)
