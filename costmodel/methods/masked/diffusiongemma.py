"""DiffusionGemma: canvases of 256 positions are drawn again in every pass, with what the pass before
predicted, and one more pass stores a finished one.
"""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="diffusiongemma",
    title="DiffusionGemma",
    citation=Citation(
        authors="DiffusionGemma Team",
        title="DiffusionGemma Technical Report",
        year=2026,
        arxiv="2608.00146",
    ),
    group="masked",
    read="code",
    shape=Shape(kind="block", nodes=256),
    refine=Refine(
        forward="block",
        commit="entropy_bound",
        tokens_per_pass=16.0,
        canvas_tokens=256,
        closing_passes=1,
        vocab_state_bytes=2.0,
    ),
    reported=(
        Reported(
            quantity="tokens_per_s",
            value=1756.55,
            source="vllm-project.github.io@137d296, _posts/2026-06-10-diffusion-gemma.md",
            model="gemma-4-26b-a4b",
            device="h100-sxm",
            dtype="fp8",
            batch=1,
            context=4096,
            tokens_per_step=16.0,
            note="16 passes a canvas, 145.74 ms a canvas, prompts left out",
        ),
        Reported(
            quantity="speedup",
            value=0.21,
            source="lablup/mlxcel pull request 218, comment of 2026-06-11",
            model="gemma-4-26b-a4b",
            device="M1 Ultra",
            batch=1,
            temperature=0.0,
            note="15.06 against 71.3 tokens/s at 4 bits, 26 to 28 passes a canvas",
        ),
    ),
    assumed=(
        (
            "refine.tokens_per_pass: 256 over the 16 passes that vLLM's announcement calls usual;"
            " they depend on the text"
        ),
        "refine.vocab_state_bytes: the probabilities of the pass before, in 16 bits",
    ),
)
