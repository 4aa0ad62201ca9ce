"""MagicDec: at long contexts the target drafts with the first and the latest tokens of its cache
alone.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="magicdec",
    title="MagicDec",
    citation=Citation(
        authors="Chen, Tiwari, Sadhukhan, Chen, Shi, Yen, Chen",
        title=(
            "MagicDec: Breaking the Latency-Throughput Tradeoff for Long Context Generation with"
            " Speculative Decoding"
        ),
        year=2024,
        arxiv="2408.11049",
    ),
    group="self speculation",
    read="code",
    draft=(Draft(by="target", context_tokens=512, own_cache=False),),
    shape=Shape(kind="chain", nodes=3),
    verify=Verify(rule="token_rejection"),
    systems=("MagicDec",),
    reproduced=(
        "tests/real_runs/published_numbers/test_shared_tables.py::test_median_errors_of_systems",
    ),
    reported=(
        Reported(
            quantity="speedup",
            value=1.22,
            source="page of Infini-AI-Lab/MagicDec",
            model="llama-3.1-8b",
            device="a100-sxm-80",
            devices=8,
            batch=32,
            context=32_000,
            temperature=0.0,
            data="PG-19",
            acceptance=0.81,
            draft_tokens=3,
        ),
        Reported(
            quantity="speedup",
            value=1.47,
            source="page of Infini-AI-Lab/MagicDec",
            model="llama-3.1-8b",
            device="a100-sxm-80",
            devices=8,
            batch=128,
            context=32_000,
            temperature=0.0,
            data="PG-19",
            acceptance=0.81,
            draft_tokens=4,
        ),
    ),
    assumed=(
        "draft.context_tokens: of the page's table; the README's commands take 256",
        "draft.own_cache: the 512 tokens are not billed to memory",
    ),
)
