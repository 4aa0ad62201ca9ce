"""H-Net: a small model over bytes decides on chunks, for each of which the large one runs once."""

from costmodel.method import Citation, Method, Spans

METHOD = Method(
    slug="h-net",
    title="H-Net",
    citation=Citation(
        authors="Hwang, Wang, Gu",
        title="Dynamic Chunking for End-to-End Hierarchical Sequence Modeling",
        year=2025,
        arxiv="2507.07955",
    ),
    group="architectures",
    read="abstract",
    own_weights=True,
    advance=Spans(tokens=4.5, layers=0.15),
    systems=("H-Net",),
    assumed=(
        "advance.tokens: bytes of a chunk",
        (
            "advance.layers: encoder and decoder over bytes, as a share of all layers; they are"
            " recurrent there, and read the cache here"
        ),
    ),
)
