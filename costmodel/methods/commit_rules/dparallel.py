"""dParallel: weights are distilled so that tokens become sure together; those of low entropy
stay.
"""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="dparallel",
    title="dParallel",
    citation=Citation(
        authors="Chen, Fang, Ma, Yu, Wang",
        title="dParallel: Learnable Parallel Decoding for dLLMs",
        year=2025,
        arxiv="2509.26488",
    ),
    group="commit rules",
    read="code",
    shape=Shape(kind="block", nodes=32),
    refine=Refine(forward="full", commit="entropy", tokens_per_pass=8.53, canvas_tokens=256),
    systems=("dParallel",),
    reproduced=(
        "tests/real_runs/published_numbers/test_diffusion_rows.py::test_milliseconds_of_dparallels_steps",
    ),
    reported=(
        Reported(
            quantity="speedup",
            value=8.45,
            source="czg1225/dParallel, table 1",
            model="llada-8b",
            batch=1,
            data="GSM8K-CoT",
            tokens_per_step=8.53,
            relative_to="llada",
            note="30 steps; device not stated",
        ),
        Reported(
            quantity="tokens_per_s",
            value=172.23,
            source="d3LLM, AUP leaderboard",
            model="llada-8b",
            device="h100-sxm",
            dtype="bf16",
            batch=1,
            data="GSM8K-CoT",
            tokens_per_step=5.14,
        ),
    ),
    assumed=("refine.tokens_per_pass: 256 tokens in 30 passes, of GSM8K-CoT",),
)
