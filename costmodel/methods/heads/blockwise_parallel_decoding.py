"""Blockwise parallel decoding: output heads propose the next tokens; the longest correct prefix
stays.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="blockwise-parallel-decoding",
    title="Blockwise parallel decoding",
    citation=Citation(
        authors="Stern, Shazeer, Uszkoreit",
        title="Blockwise Parallel Decoding for Deep Autoregressive Models",
        year=2018,
        arxiv="1811.03115",
    ),
    group="heads",
    read="code",
    exact_when="temperature 0",
    # tensorflow/tensor2tensor, tensor2tensor/models/research/transformer_parallel.py: one feed-forward
    # makes the states of a block, k times as wide as the model's inside and outside
    draft=(Draft(by="heads", matrices=((4, 1), (1, 32)), heads=7, depths_per_pass=0),),
    shape=Shape(kind="chain", nodes=7),
    verify=Verify(rule="match"),
    systems=("Blockwise Parallel Decoding",),
    reported=(
        Reported(
            quantity="speedup",
            value=4.0,
            source="arXiv:1811.03115, abstract",
            note="largest, of relaxed acceptance too; half as many iterations without loss",
        ),
    ),
    assumed=(
        "draft.heads, shape.nodes: blocks of eight, whose first token is the target's; up to ten there",
        "draft.matrices: of a model whose feed-forward is four times as wide as it",
        "verify.rule: the exact form",
    ),
)
