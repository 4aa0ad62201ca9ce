"""phi-Decoding: steps are chosen by rolling each of them out for a while."""

from costmodel.method import Citation, Method, Samples

METHOD = Method(
    slug="phi-decoding",
    title="phi-Decoding",
    citation=Citation(
        authors="Xu, Yan, Ma, Zhao, Liu, Lin, Wu",
        title=(
            "phi-Decoding: Adaptive Foresight Sampling for Balanced Inference-Time Exploration and"
            " Exploitation"
        ),
        year=2025,
        arxiv="2503.13288",
    ),
    group="test time",
    read="abstract",
    advance=Samples(rows=10.0),
    systems=("phi-Decoding",),
    assumed=(
        (
            "advance.rows: six candidates, of whose tokens four in ten are foresight that is"
            " written again"
        ),
    ),
)
