"""Multi-token prediction: a layer trained with the target predicts the token after next."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="mtp",
    title="Multi-token prediction",
    citation=Citation(
        authors="DeepSeek-AI", title="DeepSeek-V3 Technical Report", year=2024, arxiv="2412.19437"
    ),
    group="heads",
    read="paper",
    draft=(Draft(by="head", layers=1, dense_layers=False, inputs=2, rereads=True),),
    shape=Shape(kind="chain", nodes=1),
    verify=Verify(rule="token_rejection"),
    engines={"vllm": "mtp", "sglang": "mtp", "tensorrt-llm": "mtp", "llama.cpp": "mtp"},
    reported=(
        Reported(
            quantity="speedup",
            value=1.8,
            source="arXiv:2412.19437, section 5.4.3",
            model="deepseek-v3",
            draft_tokens=1,
            note="second token accepted 85 to 90 %",
        ),
    ),
)
