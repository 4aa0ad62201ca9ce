"""ARPG: image tokens are drawn in random order, several at a time, as queries on what is there."""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="arpg",
    title="ARPG",
    citation=Citation(
        title="Autoregressive Image Generation with Randomized Parallel Decoding",
        year=2025,
        arxiv="2503.10568",
    ),
    group="media",
    read="code",
    shape=Shape(kind="block", nodes=256),
    refine=Refine(
        forward="group", commit="arccos", tokens_per_pass=4.0, canvas_tokens=256, copies=2
    ),
    systems=("ARPG",),
    reproduced=(
        "tests/real_runs/published_numbers/test_diffusion_rows.py::test_milliseconds_of_image_steps",
    ),
    reported=(
        Reported(
            quantity="step_s",
            value=0.0267,
            source="arXiv:2507.01957, table 1, by a summary",
            model="ARPG-XL",
            device="a100-sxm-80",
            batch=1,
            data="ImageNet 256",
            tokens_per_step=4.0,
            note="1.71 s in 64 steps",
        ),
    ),
    assumed=(
        "refine.copies: with and without the class",
        (
            "refine.forward: half of the layers compute the group before, which is stored, the"
            " others the group itself"
        ),
    ),
)
