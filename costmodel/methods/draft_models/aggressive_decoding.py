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
    read="abstract",
    exact_when="temperature 0",
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
    ),
    assumed=(
        "draft.may_propose_nothing: nothing is copied until the output meets its input again",
        (
            "verify.rule: the exact form, input-guided; drafts by another model and relaxed matches"
            " (GAD++) are left out"
        ),
    ),
)
