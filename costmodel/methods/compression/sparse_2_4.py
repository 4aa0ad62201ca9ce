"""2:4 weights: two of four values are stored, and matrix units skip the zeros."""

from costmodel.method import Citation, Method
from costmodel.transforms.declared import WeightTransform

METHOD = Method(
    slug="sparse-2-4",
    title="2:4 structured sparsity",
    citation=Citation(
        authors="Mishra, Latorre, Pool, Stosic, Stosic, Venkatesh, Yu, Micikevicius",
        title="Accelerating Sparse Deep Neural Networks",
        year=2021,
        arxiv="2104.08378",
    ),
    group="compression",
    read="paper",
    target=(WeightTransform(name="sparse-2-4", kept_ratio=0.5, index_bits=2.0, skips_zeros=True),),
    systems=("MaskLLM / 2:4 sparsity",),
    assumed=("target: all matrices are pruned so",),
)
