"""Pangu Ultra MoE: how a model of 718 billion parameters was trained on Ascend processors."""

from costmodel.method import Citation, Method

METHOD = Method(
    slug="pangu-ultra-moe",
    title="Pangu Ultra MoE",
    citation=Citation(
        authors="Tang et al.",
        title="Pangu Ultra MoE: How to Train Your Big MoE on Ascend NPUs",
        year=2025,
        arxiv="2505.04519",
    ),
    group="architectures",
    read="abstract",
    out_of_scope="its figures are of training, which is not predicted",
    systems=("Pangu Ultra MoE",),
)
