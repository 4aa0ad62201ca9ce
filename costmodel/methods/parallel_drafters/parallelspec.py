"""ParallelSpec: a head with mask tokens drafts all levels in one pass, in place of serial heads."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="parallelspec",
    title="ParallelSpec",
    citation=Citation(
        authors="Xiao, Zhang, Ge, Ouyang, Ordonez, Yu",
        title="ParallelSpec: Parallel Drafter for Efficient Speculative Decoding",
        year=2024,
        arxiv="2410.05589",
    ),
    group="parallel drafters",
    read="abstract",
    draft=(Draft(by="head", layers=1, inputs=2, depths_per_pass=0, rereads=True),),
    shape=Shape(kind="static_tree", nodes=25, depth=5),
    verify=Verify(rule="fixed_candidates"),
    systems=("ParallelSpec",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.84,
            source="arXiv:2410.05589, abstract",
            model="llama-2-13b",
            note="largest; 62 % over the method whose drafter it replaces",
        ),
    ),
    assumed=(
        "draft: one layer, by a note on the paper; the inputs of EAGLE, which it replaces",
        "shape: the tree of EAGLE",
    ),
)
