"""BlockPilot: a small policy reads the target's state behind the prompt and sets the block size of a
block drafter, once for a request.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="blockpilot",
    title="BlockPilot",
    citation=Citation(
        authors="Zhang, Hu, Wang, Mo, Xiao, Chu",
        title=(
            "BlockPilot: Instance-Adaptive Policy Learning for Diffusion-based Speculative Decoding"
        ),
        year=2026,
        arxiv="2606.31315",
    ),
    group="parallel drafters",
    read="code",
    draft=(Draft(by="head", layers=5, features=5, depths_per_pass=0, rereads=True),),
    shape=Shape(kind="chain", nodes=15),
    verify=Verify(rule="token_rejection"),
    systems=("BlockPilot",),
    reported=(
        Reported(
            quantity="speedup",
            value=4.20,
            source="arXiv:2606.31315, abstract",
            model="qwen3-4b",
            batch=1,
            temperature=1.0,
            tokens_per_step=5.92,
        ),
    ),
    assumed=(
        "draft: the drafter is DFlash's",
        (
            "shape.nodes: its policy chooses among blocks of 14 to 18 (utils/predict.py), around the"
            " 16 that the drafter was trained for, which stands for all of them"
        ),
    ),
)
