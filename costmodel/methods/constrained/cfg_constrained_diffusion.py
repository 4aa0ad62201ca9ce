"""Constrained diffusion by context-free grammars: commits that no sentence can complete are
refused.
"""

from costmodel.method import Citation, Method, Refine, Shape

METHOD = Method(
    slug="cfg-constrained-diffusion",
    title="Constrained diffusion, context-free grammars",
    citation=Citation(
        authors="Muendler, Dekoninck, Vechev",
        title="Constrained Decoding of Diffusion LLMs with Context-Free Grammars",
        year=2025,
        arxiv="2508.10111",
    ),
    group="constrained",
    read="code",
    shape=Shape(kind="block", nodes=32),
    # eth-sri/constrained-diffusion, eval/dllm/run_dllm.py: 256 tokens in 32 steps; models/llada/model.py:
    # blocks of 32
    refine=Refine(forward="full", commit="static", tokens_per_pass=8.0, canvas_tokens=256),
    host_s=20e-3,
    systems=("CFG-constrained dLLM",),
    assumed=("host_s: twenty milliseconds a pass for the intersection with the grammar",),
)
