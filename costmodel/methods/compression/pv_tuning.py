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
    read="abstract",
    target=(WeightTransform(name="pv-tuning", bits=2.0),),
    systems=("PV-Tuning",),
    assumed=("target.bits: two, codebooks left out; looking entries up is not billed",),
)
