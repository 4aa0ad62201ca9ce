"""Double Sparsity: one token in 16 is read, chosen by a 4-bit cache of one channel in four."""

from costmodel.method import Citation, Method, Reported
from costmodel.transforms.declared import SparseAttention

METHOD = Method(
    slug="double-sparsity",
    title="Double Sparsity",
    citation=Citation(
        authors="Yang et al.",
        title="Post-Training Sparse Attention with Double Sparsity",
        year=2024,
        arxiv="2408.07092",
    ),
    group="compression",
    read="code",
    # andy-yang-1/DoubleSparse, evaluation/chat.py: one channel in four, 4 bits; its kernel benchmark has
    # the same bytes, one channel in 16 at 16 bits, and one token in 16 (models/triton_kernels/attention.py)
    target=(
        SparseAttention(
            name="double-sparsity", token_ratio=1 / 16, label_ratio=1 / 4, label_bits=4.0
        ),
    ),
    systems=("Double Sparsity",),
    reported=(
        Reported(
            quantity="speedup",
            value=14.1,
            source="arXiv:2408.07092, abstract",
            note="of the attention operation",
        ),
    ),
)
