"""Dynamic mask attention: a trained mask says which cached tokens each head reads."""

from costmodel.method import Citation, Method
from costmodel.transforms.declared import SparseAttention

METHOD = Method(
    slug="dynamic-mask-attention",
    title="Dynamic mask attention",
    citation=Citation(
        authors="Shi, Wu, Wu, Peng, Wang, Liu, Luo",
        title="Trainable Dynamic Mask Sparse Attention",
        year=2025,
        arxiv="2508.02124",
    ),
    group="attention",
    read="code",
    own_weights=True,
    # transformers, models/doge/modeling_doge.py: the 2,048 tokens that a product of all cached values
    # says, however many there are
    target=(
        SparseAttention(
            name="dynamic-mask-attention",
            token_ratio=1 / 64,
            least_tokens=2048,
            label_ratio=1.0,
            kernels=3,
        ),
    ),
    systems=("Dynamic Mask Attention",),
    assumed=(
        "target.token_ratio: 2,048 of 131,072, so that shorter texts read that many",
        "target.kernels: three launches to score and choose",
    ),
)
