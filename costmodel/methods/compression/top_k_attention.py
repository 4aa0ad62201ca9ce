"""Top-k attention: 128 tokens are read, chosen by scoring all keys."""

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
    read="code",
    # ag1988/top_k_attention, nocache_attention/nocache_attention.py and README: all keys are scored, and
    # 128 kept however many there are
    target=(
        SparseAttention(
            name="top-k-attention", token_ratio=1 / 1024, least_tokens=128, label_ratio=1.0
        ),
    ),
    target_transforms_reach_drafter=True,
    assumed=(
        "target.token_ratio: 128 of 131,072, so that shorter texts read that many",
        "target_transforms_reach_drafter: on, as it works at run time on whatever model passes",
    ),
)
