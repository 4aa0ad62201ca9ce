"""dKV-Cache: tokens that were committed a pass ago leave to a cache, which is renewed every few
passes.
"""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="dkv-cache",
    title="dKV-Cache",
    citation=Citation(
        authors="Ma, Yu, Fang, Wang",
        title="dKV-Cache: The Cache for Diffusion Language Models",
        year=2025,
        arxiv="2505.15781",
    ),
    group="masked",
    read="code",
    shape=Shape(kind="block", nodes=32),
    refine=Refine(
        forward="suffix",
        commit="static",
        tokens_per_pass=1.0,
        canvas_tokens=256,
        full_passes=1,
        full_every=8,
        # 57 operations a layer of LLaDA: tokens and cached values are put in order and chosen by
        # masks, which waits for the device five times
        launch_ratio=1.24,
        waits_in_layers=True,
    ),
    reported=(
        Reported(
            quantity="speedup",
            value=1.95,
            source="table of OpenMOSS/Sparse-dLLM",
            model="llada-8b",
            device="rtx-4090",
            dtype="bf16",
            batch=1,
            data="GSM8K",
            tokens_per_step=1.0,
            relative_to="llada",
            note="device named in a figure alone",
        ),
    ),
    assumed=(
        "refine.full_every: eight, of its README for LLaDA; four and 16 for Dream",
        (
            "refine.forward: masks of the open block and behind it; those committed since its last"
            " renewal count with them"
        ),
    ),
)
