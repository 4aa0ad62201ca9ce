"""CPPD: all characters of a word in an image are read in one pass."""

from costmodel.method import Citation, Method, Reported

METHOD = Method(
    slug="cppd",
    title="CPPD",
    citation=Citation(
        authors="Du et al.",
        title="Context Perception Parallel Decoder for Scene Text Recognition",
        year=2023,
        arxiv="2307.12270",
    ),
    group="media",
    read="code",
    # Topdu/OpenOCR, openrec/modeling/decoders/cppd_decoder.py: one pass for 25 characters and their end
    out_of_scope="a recogniser that runs once: no decoding is left to plan",
    systems=("CPPD",),
    reported=(
        Reported(
            quantity="speedup",
            value=8.0,
            source="abstract",
            relative_to="recognisers that decode",
        ),
    ),
)
