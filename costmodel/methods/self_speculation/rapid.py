"""RAPID: a model that reads a retrieved part of the text drafts for one that reads all of it."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Stop, Verify

METHOD = Method(
    slug="rapid",
    title="RAPID",
    citation=Citation(
        authors="Chen, Feng, Ni, Li, Shieh",
        title="Long-Context Inference with Retrieval-Augmented Speculative Decoding",
        year=2025,
        arxiv="2502.20330",
    ),
    group="self speculation",
    read="code",
    # John-AI-Lab/RAPID, eval/pred_longbench.py: a 32nd of the prompt, 4,096 tokens at least; ten
    # tokens, up to one of a confidence below 0.1, as Transformers' assisted generation has it
    draft=(Draft(by="target", context_tokens=4096),),
    shape=Shape(kind="chain", nodes=10),
    stop=Stop(rule="probability", at=0.1, unlikely_tokens=1),
    verify=Verify(rule="token_rejection", relaxed=True),
    systems=("RAPID",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.0,
            source="arXiv:2502.20330, abstract",
            model="LLaMA-3.1 and Qwen2.5",
            note="more than twice, beyond 32,768 tokens",
        ),
    ),
    assumed=(
        "draft: the same model, as in its self-speculative setting; a larger one may draft there",
        "draft.context_tokens: of prompts up to 131,072 tokens",
    ),
)
