"""Amphista: one bidirectional layer lets the output heads see one another; all draft in one
pass.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="amphista",
    title="Amphista",
    citation=Citation(
        authors="Li, Yang, Gao, Liu, Li, Liu, Li, Peng, Tian, Barsoum",
        title="Amphista: Bi-directional Multi-head Decoding for Accelerating LLM Inference",
        year=2024,
        arxiv="2406.13170",
    ),
    group="heads",
    read="abstract",
    exact_when="temperature 0",
    draft=(Draft(by="head", layers=1, depths_per_pass=0, own_cache=False),),
    shape=Shape(kind="static_tree", nodes=63, depth=4),
    verify=Verify(rule="match"),
    systems=("Amphista",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.75,
            source="arXiv:2406.13170, abstract",
            model="vicuna-33b",
            data="MT-Bench",
            note="largest",
        ),
        Reported(
            quantity="speedup",
            value=1.4,
            source="arXiv:2406.13170, abstract",
            model="vicuna-33b",
            data="MT-Bench",
            relative_to="medusa",
            note="largest",
        ),
    ),
    assumed=(
        "draft.layers: the auto-embedding block as one layer; its adaptation layers are left out",
        "shape: that of Medusa",
    ),
)
