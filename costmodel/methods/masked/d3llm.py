"""d3LLM: several blocks at once over a cache of the prefix, which is renewed every few passes."""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="d3llm",
    title="d3LLM",
    citation=Citation(
        title="d3LLM: Ultra-Fast Diffusion LLM using Pseudo-Trajectory Distillation",
        year=2026,
        arxiv="2601.07568",
    ),
    group="masked",
    read="code",
    shape=Shape(kind="block", nodes=32),
    refine=Refine(
        forward="suffix",
        commit="entropy",
        tokens_per_pass=9.08,
        canvas_tokens=256,
        begin_ratio=0.5,
        full_passes=2,
        full_every=3,
    ),
    reported=(
        Reported(
            quantity="tokens_per_s",
            value=280.97,
            source="d3LLM, AUP leaderboard",
            model="llada-8b",
            device="h100-sxm",
            dtype="bf16",
            batch=1,
            data="GSM8K-CoT",
            tokens_per_step=9.08,
        ),
        Reported(
            quantity="tokens_per_s",
            value=235.34,
            source="d3LLM, AUP leaderboard",
            model="dream-7b",
            device="h100-sxm",
            dtype="bf16",
            batch=1,
            data="GSM8K-CoT",
            tokens_per_step=5.01,
        ),
    ),
    assumed=(
        (
            "refine: of the authors' own code; SGLang's pull request 20615, which was closed, decodes"
            " by the same rule over the whole sequence, 3 to 5 times as fast as models of one token"
            " a pass on H800 and B200"
        ),
        "refine.tokens_per_pass: of GSM8K-CoT with LLaDA; 5.01 with Dream",
        "refine.begin_ratio: its code's default; its scripts for Dream have 0.1",
        (
            "refine.full_passes: while a finished block settles, two of its scripts for LLaDA; one"
            " for Dream"
        ),
        "refine.full_every: of its scripts for LLaDA; none for Dream",
    ),
)
