"""BlockFFN: a token uses a fifth of a feed-forward layer, and its neighbours much the same
fifth.
"""

from costmodel.method import Citation, Method, Reported
from costmodel.transforms.declared import SparseFeedForward

METHOD = Method(
    slug="blockffn",
    title="BlockFFN",
    citation=Citation(
        authors="Song, Zhao, Han, Xiao, Chen, Li, Liu, Sun",
        title=(
            "BlockFFN: Towards End-Side Acceleration-Friendly Mixture-of-Experts with Chunk-Level"
            " Activation Sparsity"
        ),
        year=2025,
        arxiv="2507.08771",
    ),
    group="layers",
    read="abstract",
    own_weights=True,
    target=(
        # 80 % of a layer is idle for a token, 70 % for eight in a row: 1 - 0.8^(1 + 7 (1 -
        # correlation)) = 0.3
        SparseFeedForward(name="blockffn", active_ratio=0.2, correlation=0.914),
    ),
    systems=("BlockFFN",),
    reported=(
        Reported(
            quantity="speedup",
            value=3.67,
            source="arXiv:2507.08771, abstract",
            note="on end-side devices, with speculative decoding, largest",
        ),
    ),
    assumed=("target.kernels: one launch that routes",),
)
