"""Grammar-constrained decoding: tokens that no sentence of a grammar allows are masked in every
step.
"""

from costmodel.method import Citation, Method

METHOD = Method(
    slug="grammar-constrained-decoding",
    title="Grammar-constrained decoding",
    citation=Citation(title="Grammar-constrained decoding"),
    group="constrained",
    read="abstract",
    host_s=1e-3,
    systems=("Grammar-constrained decoding",),
    assumed=("host_s: a millisecond per step for the mask, which the device waits for",),
)
