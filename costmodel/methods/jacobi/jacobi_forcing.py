"""Jacobi Forcing: a target tuned on its own Jacobi trajectories fills large blocks from the
left.
"""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="jacobi-forcing",
    title="Jacobi Forcing",
    citation=Citation(
        authors="Hu et al.",
        title="Fast and Accurate Causal Parallel Decoding using Jacobi Forcing",
        year=2025,
        arxiv="2512.14681",
    ),
    group="jacobi",
    read="code",
    exact_when="temperature 0, against the tuned target",
    own_weights=True,
    shape=Shape(kind="block", nodes=64),
    refine=Refine(forward="block", commit="fixed_point", tokens_per_pass=4.0, canvas_tokens=64),
    reproduced=(
        "tests/real_runs/published_numbers/test_diffusion_rows.py::test_jacobi_and_lookahead_with_stated_tokens_per_step",
    ),
    reported=(
        Reported(
            quantity="speedup",
            value=3.7,
            source="README of JacobiForcing",
            model="qwen2.5-7b",
            device="a100-sxm-80",
            batch=1,
            data="GSM8K",
            tokens_per_step=4.0,
            note="154.9 tokens/s, with two blocks at once",
        ),
        Reported(
            quantity="speedup",
            value=3.9,
            source="README of JacobiForcing",
            model="qwen2.5-7b",
            device="a100-sxm-80",
            batch=1,
            data="HumanEval",
            tokens_per_step=4.0,
            note="159.5 tokens/s",
        ),
    ),
    assumed=(
        "refine.tokens_per_pass: four, of GSM8K and HumanEval",
        "shape.nodes: blocks of 64",
    ),
)
