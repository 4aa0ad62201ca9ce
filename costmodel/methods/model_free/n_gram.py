"""Prompt lookup: the tokens that followed the latest occurrence of the current n-gram are the
draft.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="n-gram",
    title="Prompt lookup decoding",
    citation=Citation(
        authors="Saxena",
        title="Prompt Lookup Decoding",
        year=2023,
        url="https://github.com/apoorvumang/prompt-lookup-decoding",
    ),
    group="model free",
    read="code",
    draft=(Draft(by="lookup", may_propose_nothing=True),),
    shape=Shape(kind="chain"),
    verify=Verify(rule="fixed_candidates"),
    engines={
        "vllm": "ngram",
        "sglang": "ngram",
        "tensorrt-llm": "ngram",
        "llama.cpp": "ngram",
        "transformers": "ngram",
    },
    reported=(
        Reported(
            quantity="speedup",
            value=1.62,
            source="arXiv:2502.17421, table 1",
            model="vicuna-7b",
            device="a100-sxm-80",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="GovReport",
        ),
        Reported(
            quantity="speedup",
            value=0.89,
            source="arXiv:2502.17421, table 1",
            model="vicuna-7b",
            device="a100-sxm-80",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="QMSum",
        ),
    ),
)
