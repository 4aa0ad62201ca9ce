"""Sparse-dLLM: after two full passes a block reads the half of the cache that matters most."""

from costmodel.method import Citation, Method, Refine, Reported, Shape
from costmodel.transforms.declared import CacheTransform

METHOD = Method(
    slug="sparse-dllm",
    title="Sparse-dLLM",
    citation=Citation(
        authors="Song et al.",
        title="Sparse-dLLM: Accelerating Diffusion LLMs with Dynamic Cache Eviction",
        year=2025,
        arxiv="2508.02558",
    ),
    group="masked",
    read="code",
    target=(CacheTransform(name="sparse-dllm", key_ratio=0.5, value_ratio=0.5, kernels=1),),
    shape=Shape(kind="block", nodes=32),
    refine=Refine(
        forward="block", commit="static", tokens_per_pass=1.0, full_passes=2, canvas_tokens=256
    ),
    systems=("Sparse-dLLM",),
    reproduced=(
        "tests/real_runs/published_numbers/test_diffusion_rows.py::test_pruned_caches_at_one_token_a_step",
    ),
    reported=(
        Reported(
            quantity="tokens_per_s",
            value=31.72,
            source="table of OpenMOSS/Sparse-dLLM",
            model="llada-8b",
            device="rtx-4090",
            dtype="bf16",
            batch=1,
            data="MATH",
            tokens_per_step=1.0,
            note="device named in a figure alone; 8.52 without",
        ),
        Reported(
            quantity="speedup",
            value=4.57,
            source="table of OpenMOSS/Sparse-dLLM",
            model="llada-8b",
            device="rtx-4090",
            dtype="bf16",
            batch=1,
            data="GPQA",
            tokens_per_step=1.0,
            relative_to="llada",
            note="device named in a figure alone",
        ),
    ),
    assumed=("target.kernels: one launch to choose",),
)
