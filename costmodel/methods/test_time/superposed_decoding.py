"""Superposed decoding: one pass over a mix of the latest tokens continues several drafts of a
text.
"""

from costmodel.method import Citation, Method, Reported, Samples

METHOD = Method(
    slug="superposed-decoding",
    title="Superposed decoding",
    citation=Citation(
        authors="Shen et al.",
        title=(
            "Superposed Decoding: Multiple Generations from a Single Autoregressive Inference Pass"
        ),
        year=2024,
        arxiv="2405.18400",
    ),
    group="test time",
    read="code",
    # RAIVNLab/SuperposedDecoding, params/p15_d3_mixed.json: three drafts
    advance=Samples(rows=1.0, tokens=3.0),
    host_s=0.2e-3,
    systems=("Superposed Decoding",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.44,
            source="arXiv:2405.18400, abstract",
            relative_to="one pass per draft",
            note="at least, for three drafts",
        ),
    ),
    assumed=("host_s: 0.2 ms for the n-gram filter",),
)
