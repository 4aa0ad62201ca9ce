"""CLLMs: a target that was tuned to reach the fixed point of a block of 16 in few passes."""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="cllm",
    title="Consistency large language models",
    citation=Citation(
        authors="Kou, Hu, He, Deng, Zhang",
        title="CLLMs: Consistency Large Language Models",
        year=2024,
        arxiv="2403.00835",
    ),
    group="jacobi",
    read="code",
    exact_when="temperature 0, against the tuned target",
    own_weights=True,
    shape=Shape(kind="block", nodes=16),
    refine=Refine(forward="block", commit="fixed_point", tokens_per_pass=2.3, canvas_tokens=16),
    systems=("CLLMs",),
    reproduced=(
        "tests/real_runs/published_numbers/test_diffusion_rows.py::test_jacobi_and_lookahead_with_stated_tokens_per_step",
    ),
    reported=(
        Reported(
            quantity="speedup",
            value=2.1,
            source="README of JacobiForcing",
            model="qwen2.5-7b",
            device="a100-sxm-80",
            batch=1,
            data="GSM8K",
            tokens_per_step=2.3,
        ),
        Reported(
            quantity="speedup",
            value=3.0,
            source="hao-ai-lab/Consistency_LLM, chart",
            model="ABEL-7B",
            device="a100-sxm-40",
            batch=1,
            data="GSM8K",
            note="132 tokens/s",
        ),
    ),
    assumed=("refine.tokens_per_pass: 2.3 of GSM8K, as JacobiForcing measured it",),
)
