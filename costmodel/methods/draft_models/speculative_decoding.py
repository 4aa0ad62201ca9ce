"""Speculative decoding: a smaller model drafts a chain, the target verifies it in one pass."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="speculative-decoding",
    title="Speculative decoding",
    citation=Citation(
        authors="Leviathan, Kalman, Matias",
        title="Fast Inference from Transformers via Speculative Decoding",
        year=2022,
        arxiv="2211.17192",
    ),
    group="draft models",
    read="paper",
    draft=(Draft(by="model"),),
    shape=Shape(kind="chain"),
    verify=Verify(rule="token_rejection"),
    engines={
        "vllm": "draft_model",
        "sglang": "draft_model",
        "tensorrt-llm": "draft_model",
        "llama.cpp": "draft_model",
        "transformers": "draft_model",
    },
    systems=("Speculative Decoding (Leviathan)",),
    reproduced=(
        "tests/real_runs/published_numbers/test_shared_tables.py::test_speculative_decoding_on_t5",
    ),
    reported=(
        Reported(
            quantity="speedup",
            value=3.4,
            source="arXiv:2211.17192, table 2",
            model="T5-XXL 11B",
            draft="T5-small 77M",
            device="TPU-v4",
            batch=1,
            temperature=0.0,
            data="WMT EnDe",
            acceptance=0.75,
            draft_tokens=7,
        ),
    ),
)
