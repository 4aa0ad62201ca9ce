"""CopySpec: where the latest tokens occurred before, what followed them is copied."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="copyspec",
    title="CopySpec",
    citation=Citation(
        authors="Dumitru, Yang, Yadav, Surdeanu",
        title="CopySpec: Accelerating LLMs with Speculative Copy-and-Paste",
        year=2025,
        arxiv="2502.08923",
    ),
    group="model free",
    read="code",
    exact_when="temperature 0",
    # RazvanDu/CopySpec, speculative_copying.py: ten tokens from where the last three occurred first
    draft=(Draft(by="lookup", may_propose_nothing=True),),
    shape=Shape(kind="chain", nodes=10),
    verify=Verify(rule="match"),
    systems=("CopySpec",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.35,
            source="arXiv:2502.08923, abstract",
            data="CNN/DM",
            note="largest",
        ),
        Reported(
            quantity="speedup",
            value=3.08,
            source="arXiv:2502.08923, abstract",
            data="MT-Redundant, second turn",
            note="largest",
        ),
    ),
    assumed=("draft: alone; a draft model beside it is left out",),
)
