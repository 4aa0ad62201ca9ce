"""PV-Tuning: weights of one or two bits as entries of trained codebooks."""

from costmodel.method import Citation, Method
from costmodel.transforms.declared import WeightTransform

METHOD = Method(
    slug="pv-tuning",
    title="PV-Tuning",
    citation=Citation(
        authors="Malinovskii et al.",
        title="PV-Tuning: Beyond Straight-Through Estimation for Extreme LLM Compression",
        year=2024,
        arxiv="2405.14852",
    ),
    group="compression",
    read="code",
    # Vahe1994/AQLM, README: 1x16g8 of Llama-2-7B is 2.4 GB, 2.3 bits for a weight of its layers: an
    # index of 16 bits for eight, and a codebook of 65,536 entries for every matrix
    target=(WeightTransform(name="pv-tuning", bits=2.3),),
    systems=("PV-Tuning",),
    assumed=(
        "target.bits: larger models have less of codebooks; looking entries up is not billed",
    ),
)
