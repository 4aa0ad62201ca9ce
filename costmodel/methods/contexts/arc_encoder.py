"""ARC-Encoder: an encoder turns a text into four or eight times fewer vectors, which replace its
tokens.
"""

from costmodel.method import Citation, Method
from costmodel.transforms.declared import ContextTransform

METHOD = Method(
    slug="arc-encoder",
    title="ARC-Encoder",
    citation=Citation(
        authors="Pilchen, Grave, Perez",
        title="ARC-Encoder: learning compressed text representations for large language models",
        year=2025,
        arxiv="2510.20535",
    ),
    group="contexts",
    read="code",
    # kyutai-labs/ARC-Encoder, configs/finetuning_ARC4_Encoder_llama.yaml: a vector for four tokens, of
    # Llama-3.2-3B without its last two layers: 26 of 101 million weights beside 32 of 218 million
    target=(
        ContextTransform(
            name="arc-encoder", kept_ratio=0.25, latest_tokens=128, encoder_ratio=0.375
        ),
    ),
    systems=("ARC-Encoder",),
    assumed=(
        "target.kept_ratio: four times fewer; eight times in the released encoders",
        "target.latest_tokens: the question, as text",
    ),
)
