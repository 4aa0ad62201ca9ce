"""EAGLE-3: a one-layer head drafts from the target's low, middle and high features."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="eagle-3",
    title="EAGLE-3",
    citation=Citation(
        authors="Li, Wei, Zhang, Zhang",
        title=(
            "EAGLE-3: Scaling up Inference Acceleration of Large Language Models via Training-Time"
            " Test"
        ),
        year=2025,
        arxiv="2503.01840",
    ),
    group="tree drafters",
    read="paper",
    # 32,000 tokens are the reduced draft vocabulary of the published Llama and Vicuna heads
    draft=(Draft(by="head", layers=1, features=3, attention_inputs=2, vocab=32_000, rereads=True),),
    shape=Shape(kind="dynamic_tree", nodes=59, depth=8, width=10, beam=10),
    verify=Verify(rule="fixed_candidates"),
    engines={"vllm": "eagle3", "sglang": "eagle3", "tensorrt-llm": "eagle3", "llama.cpp": "eagle3"},
    systems=("EAGLE-3",),
    reproduced=(
        "tests/golden/test_measured_speedups.py::test_all_sixteen_rows_are_answered_with_a_median_error_of_3_percent",
    ),
    reported=(
        Reported(
            quantity="tokens_per_step",
            value=6.13,
            source="arXiv:2503.01840, table 1",
            model="llama-3.1-8b",
            device="a100-sxm-80",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="MT-bench",
            note="dynamic tree",
        ),
        Reported(
            quantity="speedup",
            value=1.81,
            source="arXiv:2503.01840, table 3",
            model="llama-3.1-8b",
            device="h100-sxm",
            batch=2,
            data="MT-bench",
            draft_tokens=3,
            note="SGLang, chain",
        ),
        Reported(
            quantity="speedup",
            value=1.32,
            source="arXiv:2503.01840, table 3",
            model="llama-3.1-8b",
            device="h100-sxm",
            batch=32,
            data="MT-bench",
            draft_tokens=3,
            note="SGLang, chain",
        ),
    ),
    assumed=("shape: total_token 60 counts the root",),
)
