"""GEAR: a 4-bit cache with a low-rank correction and outliers."""

from costmodel.method import Citation, Method, Reported
from costmodel.transforms.declared import CacheTransform

METHOD = Method(
    slug="gear",
    title="GEAR",
    citation=Citation(
        authors="Kang et al.",
        title=(
            "GEAR: An Efficient KV Cache Compression Recipe for Near-Lossless Generative Inference"
            " of LLM"
        ),
        year=2024,
        arxiv="2403.05527",
    ),
    group="compression",
    read="code",
    # opengear-project/GEAR, run_template_llama-3-8b.sh, GEAR-KCVT: scales by channel of the keys and by
    # token of the values, rank 4 of 128 in prompts, 2 % outliers, up to 64 tokens left as they are
    target=(
        CacheTransform(
            name="gear",
            bits=4.0,
            rank_ratio=0.03,
            outlier_ratio=0.02,
            dense_tokens=32,
            kernels=3,
        ),
    ),
    target_transforms_reach_drafter=True,
    systems=("GEAR",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.38,
            source="arXiv:2403.05527, abstract",
            note="throughput",
        ),
    ),
    assumed=(
        "target.kernels: three launches",
        "target_transforms_reach_drafter: on, as it works at run time on whatever model passes",
    ),
)
