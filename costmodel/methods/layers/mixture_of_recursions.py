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
    read="code",
    # raymin0223/mixture_of_recursions, README, model/sharing_strategy (in copies): middle cycle of 32
    # layers, the first and last of their own and for all tokens, ten between them run three times
    target=(
        LayerSchedule(
            name="mixture-of-recursions",
            shares=(*(1.0,) * 11, *(2 / 3,) * 10, *(1 / 3,) * 10, 1.0),
            together=False,
            keeps_cache=False,
            unique_ratio=12 / 32,
            prompts=True,
        ),
    ),
    systems=("Mixture-of-Recursions",),
    assumed=("target.shares: a third of the tokens leaves after each of three recursions",),
)
