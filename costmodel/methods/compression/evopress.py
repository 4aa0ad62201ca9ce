"""EvoPress: an evolutionary search decides how much every layer is compressed."""

from costmodel.method import Citation, Method
from costmodel.transforms.declared import WeightTransform

METHOD = Method(
    slug="evopress",
    title="EvoPress",
    citation=Citation(
        authors="Sieberling, Kuznedelev, Kurtic, Alistarh",
        title="EvoPress: Towards Optimal Dynamic Model Compression via Evolutionary Search",
        year=2024,
        arxiv="2410.14649",
    ),
    group="compression",
    read="abstract",
    target=(WeightTransform(name="evopress", bits=3.0),),
    systems=("EvoPress",),
    assumed=("target.bits: three, as a mean; pruned weights and layers are other forms of it",),
)
