"""Fast-dLLM v2: a block-causal model commits what it is sure of in sub-blocks, from left to
right.
"""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="fast-dllm-v2",
    title="Fast-dLLM v2",
    citation=Citation(
        authors="Wu et al.",
        title="Fast-dLLM v2: Efficient Block-Diffusion LLM",
        year=2025,
        arxiv="2509.26328",
    ),
    group="masked",
    read="code",
    shape=Shape(kind="block", nodes=32),
    refine=Refine(
        forward="block",
        commit="threshold",
        tokens_per_pass=2.37,
        canvas_tokens=32,
        closing_passes=1,
    ),
    systems=("Fast-dLLM v2",),
    reported=(
        Reported(
            quantity="tokens_per_s",
            value=150.01,
            source="d3LLM, AUP leaderboard",
            model="qwen2.5-7b",
            device="h100-sxm",
            dtype="bf16",
            batch=1,
            data="GSM8K-CoT",
            tokens_per_step=2.21,
            note="tokens per forward, the one that stores counted",
        ),
        Reported(
            quantity="speedup",
            value=2.54,
            source="page of Fast-dLLM v2",
            model="qwen2.5-7b",
            device="a100-sxm-80",
            batch=1,
            data="GSM8K",
            note="102.5 tokens/s",
        ),
    ),
    assumed=(
        (
            "refine.tokens_per_pass: 2.21 per forward of GSM8K-CoT, the forward that stores a block"
            " left out"
        ),
        (
            "refine: passes over sub-blocks of eight alone, which its block cache allows, are"
            " billed as whole blocks"
        ),
    ),
)
