"""dLLM-Cache: the prompt is computed rarely, the response now and then, in between the tokens that
changed most.
"""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="dllm-cache",
    title="dLLM-Cache",
    citation=Citation(
        authors="Liu et al.",
        title="dLLM-Cache: Accelerating Diffusion Large Language Models with Adaptive Caching",
        year=2025,
        arxiv="2506.06295",
    ),
    group="masked",
    read="code",
    shape=Shape(kind="block", nodes=32),
    refine=Refine(
        forward="canvas",
        commit="static",
        tokens_per_pass=1.0,
        canvas_tokens=256,
        full_every=50,
        canvas_every=7,
        computed_ratio=0.3,
        launch_ratio=1.48,  # 68 operations a layer of LLaDA: values compared, gathered, scattered
    ),
    reported=(
        Reported(
            quantity="speedup",
            value=2.26,
            source="table of OpenMOSS/Sparse-dLLM",
            model="llada-8b",
            device="rtx-4090",
            dtype="bf16",
            batch=1,
            data="MMLU",
            tokens_per_step=1.0,
            relative_to="llada",
            note="device named in a figure alone",
        ),
    ),
    assumed=(
        (
            "refine.full_every: 50, and `canvas_every` seven, of its scripts for LLaDA; they differ"
            " by task"
        ),
        (
            "refine.computed_ratio: a quarter, and the value products of the others, a fourteenth"
            " of a layer's work"
        ),
    ),
)
