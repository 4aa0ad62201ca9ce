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
    systems=("DiffusionGemma",),
    reproduced=(
        "tests/costmodel/laws/test_refining.py::test_canvases_take_what_vllm_announced_of_them",
    ),
    reported=(
        Reported(
            quantity="tokens_per_s",
            value=1008,
            source="vLLM's announcement of 2026-06-10, by a summary",
            model="gemma-4-26b-a4b",
            device="h100-sxm",
            dtype="fp8",
            batch=1,
            note="five times as fast as one token a pass",
        ),
        Reported(
            quantity="tokens_per_s",
            value=1288,
            source="vLLM's announcement of 2026-06-10, by a summary",
            model="gemma-4-26b-a4b",
            device="h200-sxm",
            dtype="fp8",
            batch=1,
            note="six times as fast as one token a pass",
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
            "refine.tokens_per_pass: 256 over the 16 passes that a draft of vLLM's announcement calls"
            " usual (vllm-project.github.io@137d296); they depend on the text"
        ),
        "refine.vocab_state_bytes: the probabilities of the pass before, in 16 bits",
    ),
)
