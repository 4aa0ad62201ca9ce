"""A survey of speculative decoding."""

from costmodel.method import Citation, Method

METHOD = Method(
    slug="closer-look",
    title="Survey: closer look",
    citation=Citation(
        authors="Ryu, Kim",
        title="Closer Look at Efficient Inference Methods: A Survey of Speculative Decoding",
        year=2024,
        arxiv="2411.13157",
    ),
    group="references",
    read="abstract",
    out_of_scope="a survey; the systems in it are entries of their own",
    systems=("Survey: Closer Look",),
)
