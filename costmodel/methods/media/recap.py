"""ReCAP: full passes of a masked image model alternate with passes over the chosen tokens alone."""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="recap",
    title="ReCAP",
    citation=Citation(title="ReCAP"),
    group="media",
    read="code",
    shape=Shape(kind="block", nodes=256),
    refine=Refine(
        forward="group",
        commit="static",
        tokens_per_pass=12.8,
        canvas_tokens=256,
        full_passes=10,
        copies=2,
    ),
    systems=("ReCAP",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.4,
            source="abstract",
            data="ImageNet 256",
            relative_to="full passes alone",
            note="the README says 3.2",
        ),
    ),
    assumed=(
        "refine.tokens_per_pass: 256 tokens in 20 passes",
        "refine.full_passes: ten, of eight to twelve",
        "refine.copies: with and without the class",
    ),
)
