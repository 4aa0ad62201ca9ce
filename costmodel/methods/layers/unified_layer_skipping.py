"""Unified Layer Skipping: every second layer is skipped, the same ones for all tokens."""

from costmodel.method import Citation, Method
from costmodel.transforms.declared import LayerSchedule

METHOD = Method(
    slug="unified-layer-skipping",
    title="Unified Layer Skipping",
    citation=Citation(
        authors="Liu, Meng, Zhou",
        title=(
            "Accelerating Inference in Large Language Models with a Unified Layer Skipping Strategy"
        ),
        year=2024,
        arxiv="2404.06954",
    ),
    group="layers",
    read="code",
    # Adaxry/Unified_Layer_Skipping, codes/modeling_bloom.py: prompts run all layers; a layer that is skipped
    # points at the cache of the one below; README: speedups of 2, 3, 5 and 10
    target=(LayerSchedule(name="unified-layer-skipping", shares=(1.0, 0.0), keeps_cache=False),),
    systems=("Unified Layer Skipping",),
    assumed=("target.shares: the speedup is an input there; two, the least, is taken here",),
)
