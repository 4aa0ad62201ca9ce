"""SpecBlock: every draft pass makes four dependent levels, and a tree grows by such blocks, each
begun behind any position of the one before.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="specblock",
    title="SpecBlock",
    citation=Citation(
        authors="Shi, Xu, Deng, Wu, Liu, Xu, Chen, Zhu, Xu, Huang, Yang, Zhou",
        title="SpecBlock: Block-Iterative Speculative Decoding with Dynamic Tree Drafting",
        year=2026,
        arxiv="2605.07243",
    ),
    group="tree drafters",
    read="code",
    draft=(
        Draft(
            by="head",
            layers=2,
            features=3,
            attention_inputs=2,
            vocab=32_000,
            depths_per_pass=4,
            rereads=True,
        ),
    ),
    shape=Shape(kind="dynamic_tree", nodes=89, depth=12, width=10, beam=10),
    verify=Verify(rule="fixed_candidates"),
    systems=("SpecBlock",),
    reported=(
        Reported(
            quantity="speedup",
            value=1.13,
            source="arXiv:2605.07243, abstract",
            relative_to="eagle-3",
            note="mean; 1.08 to 1.13, at 44 to 52 % of its drafting cost",
        ),
    ),
    assumed=(
        "draft.features and draft.attention_inputs: those of EAGLE-3, which it is compared with",
        (
            "shape: the repository's evaluation drafts 90 tokens with the root, ten candidates a"
            " node, in three passes of four levels; a learned head shares out the candidates there"
        ),
        "draft: its weights stay; the paper's bandit goes on training them while it serves",
    ),
)
