"""Lookahead (Ant Group): branches of a trie of prompts and outputs are verified as a tree."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="lookahead-trie",
    title="Lookahead, trie",
    citation=Citation(
        authors="Zhao, Xie, Zhuang, Gu",
        title=(
            "Lookahead: An Inference Acceleration Framework for Large Language Model with Lossless"
            " Generation Accuracy"
        ),
        year=2023,
        arxiv="2312.12728",
    ),
    group="model free",
    read="code",
    draft=(Draft(by="lookup", may_propose_nothing=True, host_s=0.5e-3),),
    shape=Shape(kind="static_tree", nodes=64, depth=12),
    verify=Verify(rule="fixed_candidates"),
    systems=("Lookahead (Alipay trie)",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.79,
            source="README of PainlessInferenceAcceleration",
            model="llama-2-7b",
            device="a100-sxm-80",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="GSM8K",
            note="fused operations; 53.7 to 149.6 tokens/s",
        ),
        Reported(
            quantity="speedup",
            value=2.12,
            source="README of PainlessInferenceAcceleration",
            model="llama-2-7b",
            device="a100-sxm-80",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="Dolly",
            note="fused operations; 50.4 to 106.8 tokens/s",
        ),
    ),
    assumed=(
        "shape: decoding and branch lengths of 64 and 12; the table does not tell them",
        "draft.host_s: half a millisecond of look-up",
    ),
)
