"""BASS: drafts of a batch share one adaptive length, and attention runs over requests of unequal
lengths.
"""

from costmodel.method import Batch, Citation, Draft, Method, Reported, Shape, Stop, Verify

METHOD = Method(
    slug="bass",
    title="BASS",
    citation=Citation(
        authors="Qian et al.",
        title="BASS: Batched Attention-optimized Speculative Sampling",
        year=2024,
        arxiv="2404.15778",
    ),
    group="serving",
    read="abstract",
    draft=(Draft(by="model"),),
    shape=Shape(kind="chain"),
    stop=Stop(rule="ema"),
    verify=Verify(rule="token_rejection"),
    batch=Batch(ragged="pad"),
    systems=("BASS",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.15,
            source="arXiv:2404.15778, abstract",
            device="a100-sxm-80",
            batch=8,
            data="HumanEval",
            note="a 7.8B model",
        ),
    ),
    assumed=("batch.ragged: of its two kernels the padded one",),
)
