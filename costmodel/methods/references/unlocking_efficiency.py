"""A survey of speculative decoding."""

from costmodel.method import Citation, Method

METHOD = Method(
    slug="unlocking-efficiency",
    title="Survey: unlocking efficiency",
    citation=Citation(
        authors="Xia et al.",
        title=(
            "Unlocking Efficiency in Large Language Model Inference: A Comprehensive Survey of"
            " Speculative Decoding"
        ),
        year=2024,
        arxiv="2401.07851",
    ),
    group="references",
    read="code",  # its benchmark, hemingkx/Spec-Bench: Leaderboard.md and eval.sh
    out_of_scope="a survey; the systems in it are entries of their own",
    systems=("Survey: Unlocking Efficiency",),
)
