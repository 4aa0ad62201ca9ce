"""Speculative sampling: a wide, shallow model drafts four tokens, which pass or are drawn again."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="speculative-sampling",
    title="Speculative sampling",
    citation=Citation(
        authors="Chen et al.",
        title="Accelerating Large Language Model Decoding with Speculative Sampling",
        year=2023,
        arxiv="2302.01318",
    ),
    group="draft models",
    read="paper",
    draft=(Draft(by="model"),),
    shape=Shape(kind="chain", nodes=4),
    verify=Verify(rule="token_rejection"),
    systems=("Speculative Sampling (Chen)",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.01,
            source="arXiv:2302.01318, table 1",
            model="Chinchilla 70B",
            draft="4B, 8 layers",
            device="TPU-v4",
            devices=16,
            batch=1,
            temperature=0.0,
            data="XSum",
            draft_tokens=4,
        ),
    ),
)
