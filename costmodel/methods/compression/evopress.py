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
    read="code",
    # IST-DASLab/EvoPress, scripts/run_quant_search.sh: 3 bits as a mean of 2 to 6; run_gptq.sh and
    # src/fast_obq.py: a scale and a zero point in 16 bits for 128 weights
    target=(WeightTransform(name="evopress", bits=3.25),),
    systems=("EvoPress",),
    assumed=(
        "target.bits: of quantised weights; pruned ones and dropped layers are other forms of it",
    ),
)
