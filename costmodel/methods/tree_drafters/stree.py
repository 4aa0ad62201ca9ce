"""STree: trees are verified on recurrent layers by one packed scan, without a state per node."""

from costmodel.method import Citation, Draft, Method, Shape, Verify

METHOD = Method(
    slug="stree",
    title="STree",
    citation=Citation(
        authors="Wu, Qin, Wong, Soatto",
        title="STree: Speculative Tree Decoding for Hybrid State-Space Models",
        year=2025,
        arxiv="2505.14969",
    ),
    group="tree drafters",
    read="abstract",
    exact_when="temperature 0",
    draft=(Draft(by="model"),),
    shape=Shape(kind="static_tree"),
    verify=Verify(rule="match"),
    systems=("STree",),
    assumed=(
        "shape.nodes: not stated; searched",
        (
            "verify.rule: on recurrent targets the packed scan is the engine's replay of inputs,"
            " which serves trees as chains"
        ),
    ),
)
