"""CSKV: keys and values are low-rank products, the latest tokens whole."""

from costmodel.method import Citation, Method, Reported
from costmodel.transforms.declared import CacheTransform

METHOD = Method(
    slug="cskv",
    title="CSKV",
    citation=Citation(
        authors="Wang, Li, Ning, Yuan, Yan, Dai, Wang",
        title="CSKV: Training-Efficient Channel Shrinking for KV Cache in Long-Context Scenarios",
        year=2024,
        arxiv="2409.10593",
    ),
    group="compression",
    read="code",
    # wln20/CSKV, README and cskv_src/modeling/modeling_llama.py: the latest 32 tokens stay whole
    target=(
        CacheTransform(
            name="cskv", key_ratio=0.20, value_ratio=0.20, dense_tokens=32, expands=True
        ),
    ),
    systems=("CSKV",),
    reported=(
        Reported(
            quantity="bytes_ratio",
            value=0.2,
            source="arXiv:2409.10593, abstract",
            note="of the cache",
        ),
    ),
)
