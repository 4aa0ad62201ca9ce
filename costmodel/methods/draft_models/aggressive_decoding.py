"""Aggressive decoding: where an edit copies its input, the rest of the input is the draft."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="aggressive-decoding",
    title="Aggressive decoding",
    citation=Citation(
        authors="Sun, Ge, Wei, Wang",
        title="Instantaneous Grammatical Error Correction with Shallow Aggressive Decoding",
        year=2021,
        url="https://aclanthology.org/2021.acl-long.462",
    ),
    group="draft models",
    read="code",
    exact_when="temperature 0",
    # microsoft/unilm, decoding/IAD/inference.py: behind the last one to three tokens, where the input
    # holds them, all of its rest is the draft; where it does not, a step takes one token
    draft=(Draft(by="lookup", may_propose_nothing=True),),
    shape=Shape(kind="chain"),
    verify=Verify(rule="match"),
    systems=("Aggressive Decoding",),
    reported=(
        Reported(
            quantity="speedup",
            value=7.0,
            source="abstract",
            model="6-layer Transformer",
            data="grammatical error correction",
            note="7 to 9 are stated",
        ),
        Reported(
            quantity="speedup",
            value=10.3,
            source="README of microsoft/unilm, decoding/IAD",
            model="9 encoder and 3 decoder layers",
            data="CoNLL-14",
            relative_to="Transformer-big with a beam of five",
        ),
    ),
    assumed=(
        (
            "verify.rule: the exact form, input-guided; drafts by another model and relaxed matches"
            " (GAD++) are left out"
        ),
    ),
)
