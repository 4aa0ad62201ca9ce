"""Mustafar: keys and values are pruned to 30 % with bitmaps."""

from costmodel.method import Citation, Method, Reported
from costmodel.transforms.declared import CacheTransform

METHOD = Method(
    slug="mustafar",
    title="Mustafar",
    citation=Citation(
        authors="Joo et al.",
        title="Mustafar: Promoting Unstructured Sparsity for KV Cache Pruning in LLM Inference",
        year=2025,
        url="https://github.com/dhjoo98/mustafar",
    ),
    group="compression",
    read="code",
    target=(
        # 70 % of keys and of values pruned: the cache is 45 % of dense, bitmaps and padding
        # included
        CacheTransform(
            name="mustafar", key_ratio=0.45, value_ratio=0.45, dense_tokens=32, kernels=2
        ),
    ),
    target_transforms_reach_drafter=True,
    systems=("Mustafar",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.23,
            source="README of dhjoo98/mustafar",
            model="llama-3-8b",
            note="throughput",
        ),
    ),
    assumed=(
        "target.kernels: two launches to prune and pack",
        "target_transforms_reach_drafter: on, as it works at run time on whatever model passes",
    ),
)
