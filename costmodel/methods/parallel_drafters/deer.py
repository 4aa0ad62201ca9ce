"""DEER: a small block-diffusion model drafts up to 32 tokens in one pass."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="deer",
    title="DEER",
    citation=Citation(
        authors="Cheng et al.",
        title="DEER: Draft with Diffusion, Verify with Autoregressive Models",
        year=2025,
        arxiv="2512.15176",
    ),
    group="parallel drafters",
    read="paper",
    draft=(Draft(by="model", depths_per_pass=0),),
    shape=Shape(kind="chain", nodes=32),
    verify=Verify(rule="token_rejection"),
    systems=("DEER",),
    reported=(
        Reported(
            quantity="speedup",
            value=5.54,
            source="arXiv:2512.15176, table 2",
            model="qwen3-30b-a3b",
            draft="0.5B block diffusion",
            device="a100-sxm-80",
            batch=1,
            temperature=0.0,
            data="HumanEval",
            tokens_per_step=6.58,
            draft_tokens=32,
        ),
        Reported(
            quantity="speedup",
            value=2.98,
            source="arXiv:2512.15176, table 2",
            model="qwen3-14b",
            draft="0.5B block diffusion",
            device="a100-sxm-80",
            batch=1,
            temperature=0.0,
            data="mean of four code sets",
            tokens_per_step=4.82,
            draft_tokens=32,
        ),
    ),
    assumed=(
        "shape.nodes: the longest draft that was kept, table 4; the size of a block is not stated",
    ),
)
