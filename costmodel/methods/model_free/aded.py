"""ADED: trigram statistics of a corpus are searched for a tree of likely continuations."""

from costmodel.method import Citation, Draft, Method, Shape, Verify

METHOD = Method(
    slug="aded",
    title="ADED",
    citation=Citation(
        authors="Liu, Lei, Zhang, Xu",
        title="Adaptive Draft-Verification",
        year=2024,
        arxiv="2407.12021",
    ),
    group="model free",
    read="abstract",
    exact_when="temperature 0",
    draft=(Draft(by="lookup", host_s=1e-3),),
    shape=Shape(kind="static_tree"),
    verify=Verify(rule="match"),
    systems=("ADED",),
    assumed=(
        "draft.host_s: a millisecond of search",
        "shape: drawn anew at every step there, of a size that is not stated; searched",
    ),
)
