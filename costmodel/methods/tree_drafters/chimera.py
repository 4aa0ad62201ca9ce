"""Chimera: a light drafter reads trigrams of the text and all features of the target, one token a
pass.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="chimera",
    title="Chimera",
    citation=Citation(
        authors="Zeng, Yu, Pang, Wang, Zhuang, Chen",
        title=(
            "Chimera: A Lossless Decoding Method for Accelerating Large Language Models Inference"
            " by Fusing all Tokens"
        ),
        year=2024,
        arxiv="2402.15758",
    ),
    group="tree drafters",
    read="abstract",
    exact_when="temperature 0",
    draft=(Draft(by="head", layers=2, inputs=2, rereads=True),),
    shape=Shape(kind="static_tree"),
    verify=Verify(rule="match"),
    systems=("Chimera",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.7,
            source="arXiv:2402.15758, abstract",
            model="Vicuna and LLaMA-2",
        ),
    ),
    assumed=(
        "draft: two layers, for the trigram block and the one that reads all tokens",
        "shape.nodes: not stated; searched",
        "verify.rule: called lossless; its sampled mode is typical acceptance",
    ),
)
