"""PARD: a draft model adapted to mask tokens drafts all of its tokens in one pass."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="pard",
    title="PARD",
    citation=Citation(
        authors="An et al.",
        title="PARD: Accelerating LLM Inference with Low-Cost PARallel Draft Model Adaptation",
        year=2025,
        arxiv="2504.18583",
    ),
    group="parallel drafters",
    read="code",
    draft=(Draft(by="model", depths_per_pass=0),),
    shape=Shape(kind="chain", nodes=12),
    verify=Verify(rule="token_rejection"),
    engines={"vllm": "pard", "tensorrt-llm": "pard"},
    systems=("PARD",),
    reported=(
        Reported(
            quantity="tokens_per_s",
            value=264.88,
            source="arXiv:2504.18583",
            model="llama-3.1-8b",
            draft="llama-3.2-1b",
            device="a100-sxm-40",
            dtype="bf16",
            batch=1,
            temperature=0.0,
            data="HumanEval",
            draft_tokens=12,
        ),
    ),
)
