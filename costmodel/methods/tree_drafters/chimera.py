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
    read="code",
    exact_when="temperature 0",
    # kafkayu/Chimera, chimera/model/Chimera_model.py: a residual block over three embeddings, which a
    # matrix fuses, and one layer; chimera/model/choices.py: the tree
    draft=(Draft(by="head", layers=1, inputs=3, matrices=((3, 3),), rereads=True),),
    shape=Shape(kind="static_tree", nodes=25, depth=5),
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
        "draft.vocab: the target's output head; there a trained one reads two vectors",
        "verify.rule: called lossless; the code's test samples by typical acceptance",
    ),
)
