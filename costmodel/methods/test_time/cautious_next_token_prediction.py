"""Cautious next token prediction: where it is uncertain, several trials run to the next punctuation
mark.
"""

from costmodel.method import Citation, Method, Samples

METHOD = Method(
    slug="cautious-next-token-prediction",
    title="Cautious next token prediction",
    citation=Citation(
        authors="Wang et al.", title="Cautious Next Token Prediction", year=2025, arxiv="2507.03038"
    ),
    group="test time",
    read="code",
    # wyzjack/CNTP, generation/utils.py of its transformers: one trial below an entropy of 0.5, three
    # below 3.5, eight above
    advance=Samples(rows=1.6),
    systems=("CNTP",),
    assumed=("advance.rows: three tokens in ten are written in three trials",),
)
