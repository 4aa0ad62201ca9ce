"""LPD: groups of image tokens that are far from one another are drawn together, in a fixed
order.
"""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="lpd",
    title="Locality-aware parallel decoding",
    citation=Citation(
        authors="Zhang, Huang, Wu, Yang, Peng, Lu, Han",
        title="Locality-aware Parallel Decoding for Efficient Autoregressive Image Generation",
        year=2025,
        arxiv="2507.01957",
    ),
    group="media",
    read="code",
    shape=Shape(kind="block", nodes=256),
    refine=Refine(
        forward="group",
        commit="cosine",
        tokens_per_pass=12.8,
        canvas_tokens=256,
        stores_along=True,
        copies=2,
    ),
    systems=("LPD",),
    reproduced=(
        "tests/real_runs/published_numbers/test_diffusion_rows.py::test_milliseconds_of_image_steps",
    ),
    reported=(
        Reported(
            quantity="step_s",
            value=0.0275,
            source="README of mit-han-lab/lpd",
            model="LPD-XXL 1.4B",
            device="a100-sxm-80",
            batch=1,
            data="ImageNet 256",
            tokens_per_step=12.8,
            note="0.55 s in 20 steps",
        ),
        Reported(
            quantity="step_s",
            value=0.0206,
            source="README of mit-han-lab/lpd",
            model="LPD-XL 752M",
            device="a100-sxm-80",
            batch=1,
            data="ImageNet 256",
            tokens_per_step=8.0,
            note="0.66 s in 32 steps",
        ),
    ),
    assumed=("refine.copies: with and without the class",),
)
