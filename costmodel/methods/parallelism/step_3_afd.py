"""Step-3: attention and feed-forward layers run on devices of their own, three batches in
flight.
"""

from costmodel.method import Citation, Method, Reported

METHOD = Method(
    slug="step-3-afd",
    title="Step-3, attention and feed-forward apart",
    citation=Citation(
        authors="StepFun: Wang et al.",
        title="Step-3 is Large yet Affordable: Model-system Co-design for Cost-effective Decoding",
        year=2025,
        arxiv="2507.19427",
    ),
    group="parallelism",
    read="paper",
    asked_as=(
        "ask `rooftree simulate` with a feed_forward section, or `rooftree models step-3 --price`"
    ),
    systems=("Step-3 (AFD)",),
    reproduced=(
        "tests/costmodel/test_published_costs.py::test_every_cell_of_the_step_3_cost_table",
        "tests/costmodel/test_published_curves.py::test_step_3_deployments",
    ),
    reported=(
        Reported(
            quantity="tokens_per_s",
            value=4039.0,
            source="arXiv:2507.19427",
            model="step-3",
            device="H800",
            dtype="fp8",
            context=4096,
            note="per GPU, at 50 ms a token",
        ),
    ),
)
