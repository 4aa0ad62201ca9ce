"""SpecDiff: a discrete diffusion model drafts all tokens together in a few denoising passes."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="specdiff",
    title="SpecDiff",
    citation=Citation(
        authors="Christopher, Bartoldson, Ben-Nun, Cardei, Kailkhura, Fioretto",
        title="Speculative Diffusion Decoding: Accelerating Language Generation through Diffusion",
        year=2024,
        arxiv="2408.05636",
    ),
    group="parallel drafters",
    read="abstract",
    draft=(Draft(by="model", passes=2, own_cache=False),),
    shape=Shape(kind="chain", nodes=15),
    verify=Verify(rule="token_rejection"),
    systems=("SpecDiff",),
    reported=(
        Reported(
            quantity="speedup",
            value=7.2,
            source="arXiv:2408.05636, abstract",
            note="largest; 8.7 in the first version",
        ),
    ),
    assumed=(
        "draft.passes: two denoising passes",
        "shape.nodes: 15 tokens",
        "draft.own_cache: none is kept",
    ),
)
