"""Tyr-the-Pruner: heads and channels are removed, unevenly over the layers."""

from costmodel.method import Citation, Method
from costmodel.transforms.declared import WeightTransform

METHOD = Method(
    slug="tyr-the-pruner",
    title="Tyr-the-Pruner",
    citation=Citation(
        title=(
            "Tyr-the-Pruner: Structural Pruning LLMs via Global Sparsity Distribution Optimization"
        ),
        year=2025,
        arxiv="2503.09657",
    ),
    group="compression",
    read="code",
    # AMD-AGI/Tyr-the-Pruner, script/example.sh: 12.5, 25, 37.5 or 50 % of heads and channels leave
    target=(WeightTransform(name="tyr-the-pruner", kept_ratio=0.5, skips_zeros=True),),
    systems=("Tyr-the-Pruner",),
    assumed=(
        "target.kept_ratio: half of the weights, the most that it removes",
        (
            "target.skips_zeros: smaller products need no matrix unit for it; cached keys and"
            " values stay whole here"
        ),
    ),
)
