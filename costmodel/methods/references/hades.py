"""HADES: an accelerator with speculative decoding in hardware."""

from costmodel.method import Citation, Method

METHOD = Method(
    slug="hades",
    title="HADES",
    citation=Citation(
        authors="Yang, Jin, Xu",
        title=(
            "HADES: Hardware Accelerated Decoding for Efficient Speculation in Large Language"
            " Models"
        ),
        year=2024,
        arxiv="2412.19925",
    ),
    group="references",
    read="abstract",
    out_of_scope=(
        "no configuration, rate or energy is stated; such a design is a device file and a draft"
        " model"
    ),
    systems=("HADES",),
)
