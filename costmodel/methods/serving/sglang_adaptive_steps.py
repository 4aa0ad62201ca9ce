"""SGLang's adaptive steps: by batch size a few draft lengths, between which a moving average of
accepted tokens decides.
"""

from costmodel.method import Citation, Method

METHOD = Method(
    slug="sglang-adaptive-steps",
    title="SGLang's adaptive steps",
    citation=Citation(
        authors="",
        title="Adaptive speculative steps by batch tier",
        year=2026,
        url="https://github.com/sgl-project/sglang/issues/24055",
    ),
    group="serving",
    read="code",
    asked_as=(
        "it sets the draft length of another method: ask `rooftree simulate --policies sglang`, and"
        " of one average without tiers `--shape chain:7+ema`"
    ),
)
