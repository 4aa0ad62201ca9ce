"""Staged speculative decoding: the draft model is itself drafted for by a trigram."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="staged-speculative-decoding",
    title="Staged speculative decoding",
    citation=Citation(
        authors="Spector, Re",
        title="Accelerating LLM Inference with Staged Speculative Decoding",
        year=2023,
        arxiv="2308.04623",
    ),
    group="draft models",
    read="paper",
    draft=(
        Draft(by="model"),
        Draft(by="lookup", tokens=2, acceptance=0.4),
    ),
    shape=Shape(kind="chain"),
    verify=Verify(rule="token_rejection"),
    systems=("Staged Speculative Decoding",),
    recorded=("catalogue/smollm2-135m--cascade--greedy",),
    reported=(
        Reported(
            quantity="tokens_per_s",
            value=475.0,
            source="arXiv:2308.04623, table 2",
            model="GPT-2-L 762M, tuned on Python",
            draft="40M GPT-2 and a trigram",
            device="RTX 4090",
            batch=1,
            temperature=0.0,
            data="HumanEval",
            note="150 tokens/s without drafts, 350 with one stage",
        ),
        Reported(
            quantity="speedup",
            value=3.16,
            source="arXiv:2308.04623, section 4",
            model="GPT-2-L 762M, tuned on Python",
            draft="40M GPT-2 and a trigram",
            device="RTX 4090",
            batch=1,
            temperature=0.0,
            data="HumanEval",
        ),
    ),
    assumed=(
        (
            "draft[1].tokens, draft[1].acceptance: what a trigram proposes and the draft model"
            " keeps is not stated"
        ),
        "shape: a chain; both stages draft trees there, of sizes that are not stated",
    ),
)
