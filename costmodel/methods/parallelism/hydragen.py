"""Hydragen: attention over a prefix that all requests share reads its cache once, as a matrix
product.
"""

from costmodel.method import Citation, Method, Reported

METHOD = Method(
    slug="hydragen",
    title="Hydragen",
    citation=Citation(
        title="Hydragen: High-Throughput LLM Inference with Shared Prefixes",
        year=2024,
        arxiv="2402.05099",
    ),
    group="parallelism",
    read="paper",
    deployment={"shared_prefix_tokens": 16_384},
    systems=("Hydragen",),
    reproduced=("tests/costmodel/test_published_curves.py::test_hydragen_curves",),
    reported=(
        Reported(
            quantity="tokens_per_s",
            value=2700.0,
            source="arXiv:2402.05099, table 1",
            model="CodeLlama-7B",
            device="a100-sxm-40",
            devices=8,
            dtype="fp16",
            batch=32,
            context=1024,
            note="prefix of 1,024 tokens",
        ),
        Reported(
            quantity="tokens_per_s",
            value=2500.0,
            source="arXiv:2402.05099, table 1",
            model="CodeLlama-7B",
            device="a100-sxm-40",
            devices=8,
            dtype="fp16",
            batch=32,
            context=16_384,
            note="prefix of 16,384 tokens",
        ),
    ),
    assumed=("deployment: a prefix of 16,384 tokens, the longest of its table",),
)
