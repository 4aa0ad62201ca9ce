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
    read="code",
    # xufangzhi/phi-Decoding, phi_decoding.py: four beams write four steps each; those within a standard
    # deviation are rolled out to the end of the answer, and four stay; ends are compared from four steps on
    advance=Samples(rows=47.0),
    systems=("phi-Decoding",),
    assumed=(
        (
            "advance.rows: of an answer of eight steps, four of them searched, 84 % of 16 candidates"
            " rolled out; foresight comes step after step, and is priced as rows of the passes that"
            " stay"
        ),
    ),
)
