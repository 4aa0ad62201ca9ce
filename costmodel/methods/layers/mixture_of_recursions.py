"""Mixture of recursions: one stack runs up to three times, on fewer tokens each time."""

from costmodel.method import Citation, Method
from costmodel.transforms.declared import LayerSchedule

METHOD = Method(
    slug="mixture-of-recursions",
    title="Mixture-of-Recursions",
    citation=Citation(
        authors="Bae et al.",
        title=(
            "Mixture-of-Recursions: Learning Dynamic Recursive Depths for Adaptive Token-Level"
            " Computation"
        ),
        year=2025,
        arxiv="2507.10524",
    ),
    group="layers",
    read="abstract",
    target=(
        LayerSchedule(
            name="mixture-of-recursions",
            shares=(1.0, 2 / 3, 1 / 3),
            together=False,
            keeps_cache=False,
            unique_ratio=1 / 3,
            prompts=True,
        ),
    ),
    systems=("Mixture-of-Recursions",),
    assumed=("target.shares: a third of the tokens leaves after each of three recursions",),
)
