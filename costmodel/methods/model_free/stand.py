"""STAND: n-gram tables of logits, shared by the trajectories of a prompt, are sampled into a
tree.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="stand",
    title="STAND",
    citation=Citation(
        authors="Song et al.",
        title="Accelerated Test-Time Scaling with Model-Free Speculative Sampling",
        year=2025,
        arxiv="2506.04708",
    ),
    group="model free",
    read="abstract",
    draft=(Draft(by="lookup", may_propose_nothing=True),),
    shape=Shape(kind="static_tree", nodes=80, depth=13),
    verify=Verify(rule="without_replacement"),
    systems=("STAND",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.5,
            source="arXiv:2506.04708, abstract",
            data="AIME24, GPQA, LiveCodeBench",
            note="from latency that falls by 60 to 65 %",
        ),
    ),
    assumed=(
        "shape: a tree fitted to data, of 80 nodes and up to 13 levels, by a note on the paper",
        "draft: acceptance grows with the trajectories that a store has seen; it is an input",
    ),
)
