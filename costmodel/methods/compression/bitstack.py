"""BitStack: weights are stacked residual blocks, of which as many are loaded as memory holds."""

from costmodel.method import Citation, Method
from costmodel.transforms.declared import WeightTransform

METHOD = Method(
    slug="bitstack",
    title="BitStack",
    citation=Citation(
        authors="Wang, Wang, Zhang, Zhou, Qiu",
        title=(
            "BitStack: Fine-Grained Size Control for Compressed Large Language Models in Variable"
            " Memory Environments"
        ),
        year=2024,
        arxiv="2410.23918",
    ),
    group="compression",
    read="code",
    # xinghaow99/BitStack, bitstack/modules/BitStackLinear.py: up to 16 blocks of a sign each and 16
    # vectors of both sides; the README's 5,541 MB of Llama-3.1-8B leave 3.9 bits for a weight
    target=(WeightTransform(name="bitstack", bits=4.0, unpack_bytes_per_s=2.6e9),),
    systems=("BitStack",),
    assumed=(
        "target.bits: four, of any size up to eighteen",
        (
            "target.unpack_bytes_per_s: weights are multiplied out of their blocks before every"
            " product, as fast as DFloat11 unpacks"
        ),
    ),
)
