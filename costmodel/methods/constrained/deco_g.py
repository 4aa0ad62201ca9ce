"""Deco-G: a tractable model beside the logits keeps the format, so that the model need not."""

from costmodel.method import Citation, Method

METHOD = Method(
    slug="deco-g",
    title="Deco-G",
    citation=Citation(title="Deco-G"),
    group="constrained",
    read="abstract",
    host_s=2e-3,
    systems=("Deco-G",),
    assumed=("host_s: two milliseconds per step for the tractable model",),
)
