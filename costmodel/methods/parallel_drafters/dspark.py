"""DSpark: a block drafter that says how likely each of its tokens is to survive, and a batch that
verifies what pays.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Stop, Verify

METHOD = Method(
    slug="dspark",
    title="DSpark",
    citation=Citation(
        authors="Cheng, Yu, Shao, Li, Xiong",
        title=(
            "DSpark: Confidence-Scheduled Speculative Decoding with Semi-Autoregressive Generation"
        ),
        year=2026,
        arxiv="2607.05147",
    ),
    group="parallel drafters",
    read="code",
    draft=(Draft(by="head", layers=5, features=5, depths_per_pass=0, rereads=True),),
    shape=Shape(kind="chain", nodes=7),
    stop=Stop(rule="cost"),
    verify=Verify(rule="token_rejection"),
    engines={"vllm": "dspark", "sglang": "dspark"},
    reproduced=(
        "tests/golden/test_adaptive_verification.py::test_where_width_is_chosen_the_gain_grows_with_the_batch",
    ),
    reported=(
        Reported(
            quantity="speedup",
            value=1.70,
            source="vllm pull request 52362, 880 requests of ShareGPT, 512 tokens of output",
            model="deepseek-v4-flash",
            batch=256,
            data="ShareGPT",
            relative_to="the same drafter with K=7 verified whole",
            note="13,325 against 7,852 tokens/s; 0.93 at 4 requests, 1.06 at 64",
        ),
        Reported(
            quantity="speedup",
            value=1.50,
            source="vllm pull request 52362, 880 requests of ShareGPT, 512 tokens of output",
            model="deepseek-v4-flash",
            batch=256,
            data="ShareGPT",
            note="13,325 against 8,879 tokens/s",
        ),
    ),
    assumed=(
        (
            "draft: the five layers on five of the target's that DeepSpec's configuration for"
            " Qwen3-4B has, with blocks of 7; the head over pairs of tokens (rank 256) and the one"
            " for confidence cost nothing"
        ),
        (
            "stop: on the drafter's own probabilities where a recording has no confidence head's;"
            " engines size the budget by confidences of two steps before, where they schedule ahead"
        ),
    ),
)
