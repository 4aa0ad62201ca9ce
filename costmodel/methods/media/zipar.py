"""ZipAR: the next row of an image begins once the one above is a few tokens ahead."""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="zipar",
    title="ZipAR",
    citation=Citation(
        title="ZipAR: Parallel Auto-regressive Image Generation through Spatial Locality",
        year=2024,
        arxiv="2412.04062",
    ),
    group="media",
    read="code",
    shape=Shape(kind="block", nodes=4096),
    refine=Refine(
        forward="group", commit="in_order", tokens_per_pass=11.1, canvas_tokens=4096, copies=2
    ),
    systems=("ZipAR",),
    reported=(
        Reported(
            quantity="tokens_per_step",
            value=11.1,
            source="arXiv:2412.04062, abstract",
            model="Emu3-Gen",
            note="91 % fewer forwards",
        ),
    ),
    assumed=(
        "refine.tokens_per_pass: 91 % fewer forwards",
        "shape.nodes: an image of 64 rows",
        "refine.copies: with and without the prompt",
    ),
)
