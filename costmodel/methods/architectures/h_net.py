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
    read="code",
    own_weights=True,
    # goombalab/hnet, configs/hnet_1stage_XL.json: eight recurrent layers of width 1,024 over bytes, 24 of
    # 2,048 over chunks, which hold 0.96 of the weights of both
    advance=Spans(tokens=4.5, layers=0.04),
    systems=("H-Net",),
    assumed=(
        "advance.tokens: bytes of a chunk",
        (
            "advance.layers: those over bytes are recurrent there, and read the cache here; models of two"
            " stages have a third level between"
        ),
    ),
)
