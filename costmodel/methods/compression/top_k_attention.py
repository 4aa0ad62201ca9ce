"""Top-k attention: one token in 16 is read, chosen by scoring all keys."""

from costmodel.method import Citation, Method
from costmodel.transforms.declared import SparseAttention

METHOD = Method(
    slug="top-k-attention",
    title="Top-k attention",
    citation=Citation(
        authors="Gupta, Dar, Goodman, Ciprut, Berant",
        title="Memory-efficient Transformers via Top-k Attention",
        year=2021,
        arxiv="2106.06899",
    ),
    group="compression",
    read="abstract",
    target=(SparseAttention(name="top-k-attention", token_ratio=1 / 16, label_ratio=1.0),),
    target_transforms_reach_drafter=True,
    assumed=(
        "target.token_ratio: a sixteenth of the tokens",
        "target_transforms_reach_drafter: on, as it works at run time on whatever model passes",
    ),
)
