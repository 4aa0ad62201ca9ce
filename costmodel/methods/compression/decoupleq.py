"""decoupleQ: weights of two bits, with scales and offsets in 16 bits by group."""

from costmodel.method import Citation, Method
from costmodel.transforms.declared import WeightTransform

METHOD = Method(
    slug="decoupleq",
    title="decoupleQ",
    citation=Citation(
        authors="Guo et al.",
        title=(
            "decoupleQ: Towards 2-bit Post-Training Uniform Quantization via decoupling Parameters"
            " into Integer and Floating Points"
        ),
        year=2024,
        arxiv="2404.12759",
    ),
    group="compression",
    read="code",
    # bytedance/decoupleQ, README: W2A16g64 of ByteDance's models; run_llama.sh has a scale by channel
    target=(WeightTransform(name="decoupleq", bits=2.5),),
    systems=("decoupleQ",),
    assumed=(
        (
            "target.bits: two, and a scale and an offset for 64 weights; products are as fast as"
            " their bytes"
        ),
    ),
)
