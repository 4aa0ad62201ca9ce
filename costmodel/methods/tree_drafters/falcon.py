"""Falcon: a semi-autoregressive head drafts two levels of a tree in one pass."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="falcon",
    title="Falcon",
    citation=Citation(
        authors="Gao, Xie, Xiang, Ji",
        title=(
            "Falcon: Faster and Parallel Inference of Large Language Models through Enhanced"
            " Semi-Autoregressive Drafting and Custom-Designed Decoding Tree"
        ),
        year=2024,
        arxiv="2412.12639",
    ),
    group="tree drafters",
    read="paper",
    draft=(Draft(by="head", layers=2, inputs=2, depths_per_pass=2, rereads=True),),
    shape=Shape(kind="static_tree"),
    verify=Verify(rule="fixed_candidates"),
    systems=("Falcon",),
    reported=(
        Reported(
            quantity="speedup",
            value=3.10,
            source="arXiv:2412.12639, table 1",
            model="vicuna-7b",
            device="H800",
            batch=1,
            temperature=0.0,
            data="MT-bench",
            tokens_per_step=3.34,
            note="four draft passes",
        ),
    ),
    assumed=(
        "draft.layers: the head is as large as two layers",
        "shape.nodes: not stated; searched",
    ),
)
