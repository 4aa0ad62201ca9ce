"""FFN Fusion: feed-forward layers between which attention was removed run side by side as one."""

from costmodel.method import Citation, Method, Reported

METHOD = Method(
    slug="ffn-fusion",
    title="FFN Fusion",
    citation=Citation(
        authors="Bercovich et al.",
        title="FFN Fusion: Rethinking Sequential Computation in Large Language Models",
        year=2025,
        arxiv="2503.18908",
    ),
    group="architectures",
    read="abstract",
    needs="a model whose layers differ in width and partly lack attention (nemotron-nas configurations)",
    systems=("FFN Fusion",),
    reported=(
        Reported(
            quantity="speedup", value=1.71, source="arXiv:2503.18908, abstract", model="Ultra-253B-Base",
            relative_to="Llama-3.1-405B-Instruct", note="latency",
        ),
    ),
)  # fmt: skip
