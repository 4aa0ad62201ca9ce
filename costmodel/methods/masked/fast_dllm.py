"""Fast-dLLM: a masked model commits all tokens of a block that it is sure of, with caches beside
the block.
"""

from costmodel.method import Batch, Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="fast-dllm",
    title="Fast-dLLM, dual cache",
    citation=Citation(
        authors="Wu et al.",
        title=(
            "Fast-dLLM: Training-free Acceleration of Diffusion LLM by Enabling KV Cache and"
            " Parallel Decoding"
        ),
        year=2025,
        arxiv="2505.22618",
    ),
    group="masked",
    read="code",
    shape=Shape(kind="block", nodes=32),
    refine=Refine(
        forward="block",
        commit="threshold",
        tokens_per_pass=2.77,
        canvas_tokens=256,
        full_passes=1,
        # 47 operations a layer, a plain one has 46; its `nonzero` and four `item` wait for the device
        launch_ratio=1.02,
        waits_in_layers=True,
    ),
    batch=Batch(ragged="pad"),
    systems=("Fast-dLLM",),
    reproduced=(
        "tests/real_runs/published_numbers/test_diffusion_rows.py::test_fast_dllm_on_an_h100",
    ),
    reported=(
        Reported(
            quantity="tokens_per_s",
            value=114.29,
            source="d3LLM, AUP leaderboard",
            model="llada-8b",
            device="h100-sxm",
            dtype="bf16",
            batch=1,
            data="GSM8K-CoT",
            tokens_per_step=2.77,
        ),
        Reported(
            quantity="speedup",
            value=1.99,
            source="d3LLM, AUP leaderboard",
            model="llada-8b",
            device="h100-sxm",
            dtype="bf16",
            batch=1,
            data="GSM8K-CoT",
            tokens_per_step=2.77,
            relative_to="plain decoding of Qwen2.5-7B in Transformers",
        ),
    ),
    assumed=(
        (
            "refine.tokens_per_pass: of GSM8K-CoT at a threshold of 0.9, as d3LLM ran it; it"
            " depends on the text"
        ),
        "batch.ragged: its code begins a block when all requests have finished theirs",
    ),
)
