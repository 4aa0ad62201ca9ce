"""Arbitrage: a router foresees where the target would write a better step than the draft model
did.
"""

from costmodel.method import Citation, Draft, Method, Reported, Routing

METHOD = Method(
    slug="arbitrage",
    title="Arbitrage",
    citation=Citation(
        authors="Maheswaran et al.",
        title="Arbitrage: Efficient Reasoning via Advantage-Aware Speculation",
        year=2025,
        arxiv="2512.05033",
    ),
    group="test time",
    read="paper",
    advance=Routing(draft=Draft(by="model"), tokens=32, accepted_ratio=0.8, judge="draft"),
    systems=("Arbitrage",),
    reported=(
        Reported(
            quantity="speedup",
            value=1.62,
            source="arXiv:2512.05033, by a note",
            device="RTX A6000",
            batch=1,
            data="MATH500",
            relative_to="reward-guided-speculative-decoding",
            note="at equal accuracy",
        ),
        Reported(
            quantity="speedup",
            value=2.0,
            source="arXiv:2512.05033, abstract",
            relative_to="other step-level speculation",
            note="latency, largest",
        ),
    ),
    assumed=(
        "advance.tokens: steps of 32 tokens",
        "advance.accepted_ratio: eight steps in ten",
        "advance.judge: a router as large as the draft model",
    ),
)
