"""AdaDec: where the next token of code is uncertain, candidates are rolled out and ranked again."""

from costmodel.method import Citation, Method, Samples

METHOD = Method(
    slug="adadec",
    title="AdaDec",
    citation=Citation(title="AdaDec"),
    group="test time",
    read="abstract",
    advance=Samples(rows=1.3),
    systems=("AdaDec",),
    assumed=("advance.rows: one step in ten rolls three candidates out, as a mean over all steps",),
)
