"""D2F: several blocks are refined at once, each begun before the one to its left is done."""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="d2f",
    title="Discrete diffusion forcing",
    citation=Citation(
        authors="Wang, Xu, Jin, Jin, Zhang, Deng",
        title="Diffusion LLMs Can Do Faster-Than-AR Inference via Discrete Diffusion Forcing",
        year=2025,
        arxiv="2508.09192",
    ),
    group="masked",
    read="code",
    shape=Shape(kind="block", nodes=32),
    refine=Refine(
        forward="block",
        commit="threshold",
        tokens_per_pass=2.88,
        canvas_tokens=256,
        begin_ratio=0.7,
        stores_along=True,
    ),
    reported=(
        Reported(
            quantity="tokens_per_s",
            value=76.24,
            source="d3LLM, AUP leaderboard",
            model="llada-8b",
            device="a100-sxm-80",
            dtype="bf16",
            batch=1,
            data="GSM8K-CoT",
            tokens_per_step=2.88,
        ),
        Reported(
            quantity="speedup",
            value=7.3,
            source="README of Discrete-Diffusion-Forcing",
            model="llada-8b",
            device="A100-PCIe-40GB",
            batch=1,
            data="GSM8K",
            relative_to="llada",
            note="52.5 tokens/s",
        ),
    ),
    assumed=(
        (
            "refine.tokens_per_pass: of GSM8K-CoT in blocks of 32, the next begun at 0.7, as d3LLM"
            " ran it"
        ),
        "refine.begin_ratio: its own scripts have 0.1 to 0.9 by task",
    ),
)
