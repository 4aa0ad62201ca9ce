"""STree: trees are verified on recurrent layers by one packed scan, without a state per node."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

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
    read="code",
    exact_when="temperature 0",
    draft=(Draft(by="model"),),
    # wyc1997/stree, mamba2_inference/spec_warpper.py (MambaInLlamaDistilledStaticTreeModel) and
    # scripts/MIL-8B-*.sh: four levels of three nodes
    shape=Shape(kind="static_tree", nodes=12, depth=4),
    verify=Verify(rule="match"),
    systems=("STree",),
    reported=(
        Reported(
            quantity="speedup",
            value=1.45,
            source="README of wyc1997/stree",
            model="MambaInLlama 8B",
            draft="distilled Mamba-2",
            device="rtx-3090",
            batch=1,
            note="one prompt: 1,456 ms of 2,118; 1,585 with a chain",
        ),
    ),
    assumed=(
        (
            "verify.rule: on recurrent targets the packed scan is the engine's replay of inputs,"
            " which serves trees as chains"
        ),
    ),
)
