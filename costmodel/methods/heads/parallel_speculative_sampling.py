"""PaSS: the target drafts several tokens in one pass over trained look-ahead inputs."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="parallel-speculative-sampling",
    title="PaSS",
    citation=Citation(
        authors="Monea, Joulin, Grave",
        title="PaSS: Parallel Speculative Sampling",
        year=2023,
        arxiv="2311.13581",
    ),
    group="heads",
    read="abstract",
    draft=(Draft(by="target", depths_per_pass=0, own_cache=False),),
    shape=Shape(kind="chain", nodes=4),
    verify=Verify(rule="token_rejection"),
    systems=("PaSS",),
    reported=(
        Reported(
            quantity="speedup",
            value=1.3,
            source="arXiv:2311.13581, abstract",
            note="largest",
        ),
    ),
    assumed=("shape.nodes: four look-ahead tokens",),
)
