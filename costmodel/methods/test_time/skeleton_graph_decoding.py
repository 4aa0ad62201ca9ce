"""Skeleton graph decoding: sub-problems that do not depend on one another are decoded together."""

from costmodel.method import Citation, Method, Reported, Samples

METHOD = Method(
    slug="skeleton-graph-decoding",
    title="Skeleton graph decoding",
    citation=Citation(
        authors="Jin, Wu, Zheng, Zhang, Lentz, Mao, Prakash, Qian, Zhuo",
        title="Adaptive Skeleton Graph Decoding",
        year=2024,
        arxiv="2402.12280",
    ),
    group="test time",
    read="abstract",
    advance=Samples(rows=2.0, tokens=2.0),
    systems=("Skeleton Graph Decoding",),
    reported=(
        Reported(
            quantity="speedup",
            value=1.69,
            source="arXiv:2402.12280, abstract",
        ),
    ),
    assumed=(
        "advance: two sub-problems open on average",
        "advance.tokens: the skeleton itself, and smaller models for easier parts, are left out",
    ),
)
