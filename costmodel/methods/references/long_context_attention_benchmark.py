"""Long-context attention benchmark: kernels and parallelism of attention in training."""

from costmodel.method import Citation, Method

METHOD = Method(
    slug="long-context-attention-benchmark",
    title="Long-context attention benchmark",
    citation=Citation(
        authors="Bu et al.",
        title=(
            "Long-Context Attention Benchmark: From Kernel Efficiency to Distributed Context"
            " Parallelism"
        ),
        year=2025,
        arxiv="2510.17896",
    ),
    group="references",
    read="abstract",
    out_of_scope="a benchmark of training, which is not predicted",
    systems=("Long-Context Attention Benchmark",),
)
