"""Gumiho: two serial transformer layers draft the first tokens, small parallel heads the rest in
one pass.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="gumiho",
    title="Gumiho",
    citation=Citation(
        authors="Li et al.",
        title="Gumiho: A Hybrid Architecture to Prioritize Early Tokens in Speculative Decoding",
        year=2025,
        arxiv="2503.10135",
    ),
    group="tree drafters",
    read="code",
    draft=(Draft(by="head", layers=2, inputs=2, serial_depths=2, rereads=True),),
    # AMD-AIG-AIMA/Gumiho, scripts/eval_*.sh and gumiho/model/cnets.py (topK_genrate): 64 tokens with
    # the root, two levels of 14 from the layers and five from as many heads
    shape=Shape(kind="dynamic_tree", nodes=63, depth=7, width=14, beam=14),
    verify=Verify(rule="fixed_candidates"),
    systems=("Gumiho",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.97,
            source="README of AMD-AIG-AIMA/Gumiho",
            model="vicuna-7b",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="mean",
            tokens_per_step=4.89,
        ),
    ),
    assumed=(
        (
            "draft: the one parallel pass for the last five levels is priced as a pass of the two"
            " layers; its five heads of six matrices each hold a third more values"
        ),
        "shape.width, shape.beam: 35 at the five levels of the heads there",
    ),
)
