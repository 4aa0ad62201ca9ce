"""Canary: speech models with more layers in the encoder, which runs once, and fewer in the
decoder.
"""

from costmodel.method import Citation, Method, Reported
from costmodel.transforms.declared import EncoderSplit

METHOD = Method(
    slug="canary",
    title="Canary, shallower decoder",
    citation=Citation(
        authors="Zelasko et al.",
        title="Training and Inference Efficiency of Encoder-Decoder Speech Models",
        year=2025,
        arxiv="2503.05931",
    ),
    group="architectures",
    read="abstract",
    target=(EncoderSplit(name="canary", encoder_ratio=32 / 36),),
    own_weights=True,
    systems=("Encoder-decoder speech (Canary)",),
    reported=(
        Reported(
            quantity="speedup",
            value=3.0,
            source="arXiv:2503.05931, abstract",
            relative_to="layers shared evenly",
            note="inverse real-time factor",
        ),
    ),
    assumed=(
        (
            "target.encoder_ratio: 32 layers read and 4 write in Canary-1B-flash, 24 and 24 in"
            " Canary-1B (model cards); layers are of the target's kind, not FastConformer's"
        ),
    ),
)
