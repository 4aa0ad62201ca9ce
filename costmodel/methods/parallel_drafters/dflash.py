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
    read="code",
    # z-lab/dflash, dflash/model.py: a block of 16 holds the known token and 15 masks; as many layers
    # of the target are fused as the drafter has (build_target_layer_ids)
    draft=(Draft(by="head", layers=5, features=5, depths_per_pass=0, rereads=True),),
    shape=Shape(kind="chain", nodes=15),
    verify=Verify(rule="token_rejection"),
    engines={"vllm": "dflash", "sglang": "dflash", "tensorrt-llm": "dflash", "llama.cpp": "dflash"},
    assumed=(
        (
            "draft.layers: five, as a drafter's card states"
            " (huggingface.co/chutesai/Qwen3-32B-FP8-DFLASH); the code takes them from checkpoints"
        ),
        "verify.rule: the code keeps a greedy draft where it is the token that the target draws",
    ),
)
