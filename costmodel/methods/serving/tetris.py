"""TETRIS: requests draft more than the batch may verify; the likeliest draft tokens of all of them
are verified.
"""

from costmodel.method import Batch, Citation, Draft, Method, Shape, Verify

METHOD = Method(
    slug="tetris",
    title="TETRIS",
    citation=Citation(
        authors="Wu et al.",
        title="TETRIS: Optimal Draft Token Selection for Batch Speculative Decoding",
        year=2025,
        arxiv="2502.15197",
    ),
    group="serving",
    read="code",
    draft=(Draft(by="model", host_s=0.3e-3),),
    shape=Shape(kind="chain", nodes=4),
    verify=Verify(rule="token_rejection"),
    batch=Batch(slots="likeliest", budget_per_request=3.0),
    systems=("TETRIS",),
    assumed=(
        (
            "shape.nodes and batch.budget_per_request: four tokens drafted, one more than are"
            " verified on average"
        ),
        "draft.host_s: choosing takes less than 0.3 ms, as stated",
    ),
)
