"""ZeCO: sequence parallelism for training linear attention."""

from costmodel.method import Citation, Method

METHOD = Method(
    slug="zeco",
    title="ZeCO",
    citation=Citation(
        authors="Chou et al.",
        title="ZeCO: Zero Communication Overhead Sequence Parallelism for Linear Attention",
        year=2025,
        arxiv="2507.01004",
    ),
    group="architectures",
    read="abstract",
    out_of_scope="its figures are of training, which is not predicted",
    systems=("ZeCO",),
)
