"""Tree attention: devices that share a text combine their parts of attention in a tree, not a
ring.
"""

from costmodel.method import Citation, Method, Reported

METHOD = Method(
    slug="tree-attention",
    title="Tree Attention",
    citation=Citation(
        title="Tree Attention: Topology-aware Decoding for Long-Context Attention on GPU clusters",
        year=2024,
        arxiv="2408.04093",
    ),
    group="parallelism",
    read="paper",
    deployment={"context_parallel": 8},
    systems=("Tree Attention",),
    reported=(
        Reported(
            quantity="speedup",
            value=4.28,
            source="arXiv:2408.04093, table",
            model="llama-3.1-8b",
            device="h100-sxm",
            devices=8,
            dtype="bf16",
            batch=1,
            context=32_768,
            relative_to="ring attention",
            note="prompt and ten tokens",
        ),
    ),
    assumed=("deployment: eight devices; decoding always combines in a tree here",),
)
