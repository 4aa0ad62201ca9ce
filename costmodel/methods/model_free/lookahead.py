"""Lookahead decoding: a Jacobi window beside the text gathers n-grams, and the pass that refines it
verifies them.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="lookahead",
    title="Lookahead decoding",
    citation=Citation(
        authors="Fu, Bailis, Stoica, Zhang",
        title="Break the Sequential Dependency of LLM Inference Using Lookahead Decoding",
        year=2024,
        arxiv="2402.02057",
    ),
    group="model free",
    read="code",
    draft=(Draft(by="rows", may_propose_nothing=True),),
    # window W = 15, n-grams of N = 5, G = 15 candidates: (W + G)(N - 1) query tokens beside the
    # root, N - 1 can stay
    shape=Shape(kind="window", nodes=4, guesses=15, riding=15 * 4),
    verify=Verify(rule="match"),
    systems=("Lookahead decoding",),
    recorded=("catalogue/smollm2-135m--lookahead--greedy",),
    reported=(
        Reported(
            quantity="speedup",
            value=1.64,
            source="arXiv:2402.02057, figure of MT-Bench",
            model="llama-2-7b",
            device="a100-sxm-80",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="MT-Bench",
            note="no FlashAttention",
        ),
        Reported(
            quantity="speedup",
            value=1.34,
            source="Spec-Bench leaderboard",
            model="vicuna-7b",
            device="a100-sxm-80",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="Spec-Bench",
            tokens_per_step=1.64,
            note="N = 5, W = G = 7",
        ),
    ),
)
