"""DFlash: a few layers on the target's features fill a whole block of masked tokens in one pass."""

from costmodel.method import Citation, Draft, Method, Shape, Verify

METHOD = Method(
    slug="dflash",
    title="DFlash",
    citation=Citation(
        authors="Chen, Liang, Liu",
        title="DFlash: Block Diffusion for Flash Speculative Decoding",
        year=2026,
        arxiv="2602.06036",
    ),
    group="parallel drafters",
    read="abstract",
    draft=(Draft(by="head", layers=5, inputs=5, depths_per_pass=0, rereads=True),),
    shape=Shape(kind="chain", nodes=15),
    verify=Verify(rule="token_rejection"),
    engines={"vllm": "dflash", "sglang": "dflash", "tensorrt-llm": "dflash", "llama.cpp": "dflash"},
    assumed=(
        (
            "draft: five layers on five of the target's, blocks of 16 with the known token, as a"
            " drafter's card states (huggingface.co/chutesai/Qwen3-32B-FP8-DFLASH)"
        ),
    ),
)
