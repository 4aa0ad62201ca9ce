"""Adaptive parallel decoding: tokens stay from the left as far as a small model agrees with
them.
"""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="adaptive-parallel-decoding",
    title="Adaptive parallel decoding",
    citation=Citation(
        authors="Israel, Van den Broeck, Grover",
        title="Accelerating Diffusion LLMs via Adaptive Parallel Decoding",
        year=2025,
        arxiv="2506.00413",
    ),
    group="commit rules",
    read="code",
    shape=Shape(kind="block", nodes=256),
    refine=Refine(
        forward="full",
        commit="auxiliary",
        tokens_per_pass=5.7,
        auxiliary="qwen2.5-0.5b",
        canvas_tokens=256,
    ),
    systems=("APD",),
    reported=(
        Reported(
            quantity="tokens_per_s",
            value=40.3,
            source="figure of danielmisrael/apd, read off",
            model="dream-7b",
            batch=1,
            data="GSM8K",
            tokens_per_step=5.7,
            note="device not stated; 10.2 without",
        ),
        Reported(
            quantity="speedup",
            value=10.2,
            source="figure of danielmisrael/apd, read off",
            model="dream-7b",
            batch=1,
            data="GSM8K",
            relative_to="one token a pass",
            note="windows of 16 and 100",
        ),
    ),
    assumed=("refine.tokens_per_pass: of its figure at R = 0.5 without windows",),
)
