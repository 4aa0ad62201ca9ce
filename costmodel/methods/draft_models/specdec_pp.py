"""SpecDec++: a draft ends once it is likely enough that one of its tokens will be rejected."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Stop, Verify

METHOD = Method(
    slug="specdec-pp",
    title="SpecDec++",
    citation=Citation(
        authors="Huang, Guo, Wang",
        title="SpecDec++: Boosting Speculative Decoding via Adaptive Candidate Lengths",
        year=2024,
        arxiv="2405.19715",
    ),
    group="draft models",
    read="code",
    draft=(Draft(by="model"),),
    shape=Shape(kind="chain", nodes=20),
    stop=Stop(rule="product", at=0.3, least_tokens=2, most_tokens=20),
    verify=Verify(rule="token_rejection"),
    systems=("SpecDec++",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.04,
            source="arXiv:2405.19715, abstract",
            model="llama-2-70b",
            draft="llama-2-7b",
            data="Alpaca",
        ),
    ),
    assumed=("stop: on the drafter's own probabilities; a trained head predicts acceptance there",),
)
