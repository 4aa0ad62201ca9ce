"""Fast-dLLM with a cache of the prefix alone: every pass computes all of the canvas from the block
on.
"""

from dataclasses import replace

from costmodel.method import Refine
from costmodel.methods.masked.fast_dllm import METHOD as DUAL

METHOD = replace(
    DUAL,
    slug="fast-dllm-prefix",
    title="Fast-dLLM, prefix cache",
    refine=Refine(
        forward="suffix", commit="threshold", tokens_per_pass=2.77, canvas_tokens=256, full_passes=1
    ),
    systems=(),
    reproduced=(),
    reported=(),
    assumed=(
        "refine.tokens_per_pass: that of the dual cache",
        "batch.ragged: that of the dual cache",
    ),
)
