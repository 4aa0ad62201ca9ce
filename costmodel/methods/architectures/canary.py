"""Canary: speech models with more layers in the encoder, which runs once, and fewer in the decoder."""

from costmodel.method import Citation, Method, Reported

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
    needs="encoder-decoder models: an encoder that runs once and attention to its fixed states",
    systems=("Encoder-decoder speech (Canary)",),
    reported=(
        Reported(
            quantity="speedup", value=3.0, source="arXiv:2503.05931, abstract", relative_to="layers shared evenly",
            note="inverse real-time factor",
        ),
    ),
)  # fmt: skip
