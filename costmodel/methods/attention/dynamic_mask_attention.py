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
    read="abstract",
    own_weights=True,
    target=(
        SparseAttention(
            name="dynamic-mask-attention",
            token_ratio=0.125,
            least_tokens=2048,
            label_ratio=0.5,
            kernels=3,
        ),
    ),
    systems=("Dynamic Mask Attention",),
    assumed=(
        (
            "target: an eighth of the tokens and 2,048 at least, chosen by what is computed of the"
            " values"
        ),
    ),
)
