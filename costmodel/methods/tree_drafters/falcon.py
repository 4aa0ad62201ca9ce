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
    read="code",
    # Bestpay-inc/Falcon, models/cnets.py: an LSTM of two layers, whose first reads feature and
    # embedding, below attention; models/choices.py and scripts/evaluate_falcon_mtbench.sh: the tree
    draft=(Draft(by="head", layers=1, matrices=((4, 3), (4, 2)), depths_per_pass=2, rereads=True),),
    shape=Shape(kind="static_tree", nodes=166, depth=8),
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
        "draft.layers: one; the code takes their number from checkpoints",
        "shape: kmask2_8layer_tree, which the script of LLaMA-2 7B names; there are smaller ones",
    ),
)
