"""Reward-guided speculative decoding: steps of a draft model stay where a reward model likes
them.
"""

from costmodel.method import Citation, Draft, Method, Reported, Routing

METHOD = Method(
    slug="reward-guided-speculative-decoding",
    title="Reward-guided speculative decoding",
    citation=Citation(
        authors="Liao, Xu, Dong, Li, Monz, Savarese, Sahoo, Xiong",
        title="Reward-Guided Speculative Decoding for Efficient LLM Reasoning",
        year=2025,
        arxiv="2501.19324",
    ),
    group="test time",
    read="code",
    # BaohaoLiao/RSD, main_online.py: a step ends at an empty line, stays at a reward of 0.7 and is
    # written again otherwise; scripts/math_eval.sh: drafter and judge of 1.5B beside 7B
    advance=Routing(draft=Draft(by="model"), tokens=32, accepted_ratio=0.7, judge="draft"),
    systems=("Reward-Guided SD (RSD-reward)",),
    reported=(
        Reported(
            quantity="speedup",
            value=4.4,
            source="arXiv:2501.19324, abstract",
            model="Qwen2.5-Math",
            note="of arithmetic alone, largest",
        ),
    ),
    assumed=(
        "advance.tokens: steps of 32 tokens",
        "advance.accepted_ratio: seven steps in ten",
    ),
)
