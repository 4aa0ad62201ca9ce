"""JetFlow (later JetSpec): a causal head drafts all levels in one pass, of whose likeliest
candidates a tree is grown.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="jetflow",
    title="JetFlow",
    citation=Citation(
        authors="Hu, Feng, Wu, Yuan, Zhao, Qian, Wang, Jiang, Zhu, Rosing, Zhang",
        title=(
            "JetFlow: Breaking the Scaling Ceiling of Speculative Decoding with Parallel Tree"
            " Drafting"
        ),
        year=2026,
        arxiv="2606.18394",
    ),
    group="parallel drafters",
    read="code",
    draft=(Draft(by="head", layers=5, features=5, depths_per_pass=0, rereads=True),),
    shape=Shape(kind="dynamic_tree", nodes=255, depth=15, width=7),
    verify=Verify(rule="match"),
    systems=("JetFlow",),
    reported=(
        Reported(
            quantity="speedup",
            value=9.64,
            source="arXiv:2606.18394, abstract; length of sglang pull request 29587",
            model="qwen3-8b",
            device="h100-sxm",
            batch=1,
            temperature=0.0,
            data="MATH-500",
            tokens_per_step=10.76,
        ),
        Reported(
            quantity="tokens_per_s",
            value=910.3,
            source="README of hao-ai-lab/JetSpec",
            model="qwen3-8b",
            device="b200-sxm",
            dtype="bf16",
            batch=1,
            temperature=0.0,
            data="MATH-500",
            tokens_per_step=9.6,
        ),
    ),
    assumed=(
        "draft: the layers and features of DFlash, whose head it trains under a causal mask",
        "shape.nodes: 255 of its benchmark; its engine's example has 63 and 127",
    ),
)
