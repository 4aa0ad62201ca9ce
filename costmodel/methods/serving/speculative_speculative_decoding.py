"""Speculative speculative decoding (Saguaro): while the target verifies, a draft model on a device
of its own drafts for the likeliest outcomes of that verification.
"""

from costmodel.method import Batch, Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="speculative-speculative-decoding",
    title="Speculative speculative decoding",
    citation=Citation(
        authors="Kumar, Dao, May",
        title="Speculative Speculative Decoding",
        year=2026,
        arxiv="2603.03251",
    ),
    group="serving",
    read="code",
    draft=(Draft(by="model"),),
    shape=Shape(kind="chain", nodes=6),
    verify=Verify(rule="token_rejection"),
    batch=Batch(drafts_during_verify=True, fan_out=3, on_miss="wait", own_device=True),
    systems=("Speculative speculative decoding",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.0,
            source="arXiv:2603.03251, abstract",
            relative_to="speculative-decoding",
            note="largest",
        ),
        Reported(
            quantity="speedup", value=5.0, source="arXiv:2603.03251, abstract", note="largest"
        ),
    ),
    assumed=(
        "shape.nodes: six draft tokens, the default of the repository's benchmark",
        (
            "batch.fan_out: three behind every accepted length, the default of the repository; the"
            " paper divides as many among the lengths as a capped geometric series"
        ),
        (
            "batch.on_miss: the benchmark's default backup (`jit`); its other one verifies random"
            " tokens, which `plain` stands for"
        ),
        (
            "verify.rule: the paper besides lowers the draft's probability of foreseen tokens, which"
            " no law here knows"
        ),
    ),
)
