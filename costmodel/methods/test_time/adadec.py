"""AdaDec: where the next token of code is uncertain, candidates are rolled out and ranked again."""

from costmodel.method import Citation, Method, Samples

METHOD = Method(
    slug="adadec",
    title="AdaDec",
    citation=Citation(title="AdaDec"),
    group="test time",
    read="code",
    # SYSUSELab/AdaDec, README: three candidates are rolled out for at most five tokens
    advance=Samples(rows=2.5),
    systems=("AdaDec",),
    assumed=(
        (
            "advance.rows: one step in ten rolls out, for all five tokens; those come one after another,"
            " and are priced as 15 more rows of that step"
        ),
    ),
)
