"""HASS: the head of EAGLE-2, trained on what it sees when it drafts."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="hass",
    title="HASS",
    citation=Citation(
        authors="Zhang, Wang, Huang, Xu",
        title="Learning Harmonized Representations for Speculative Sampling",
        year=2024,
        arxiv="2408.15766",
    ),
    group="tree drafters",
    read="code",
    # HArmonizedSS/HASS, evaluation/gen_ea_answer_llama2chat.py: 60 tokens with the root, depth 5
    # behind the first level, top-k 10; model/cnets.py: one layer that two vectors are fused for
    draft=(Draft(by="head", layers=1, inputs=2, rereads=True),),
    shape=Shape(kind="dynamic_tree", nodes=59, depth=6, width=10, beam=10),
    verify=Verify(rule="fixed_candidates"),
    reported=(
        Reported(
            quantity="speedup",
            value=3.1,
            source="README of JacobiForcing",
            model="qwen2.5-7b",
            device="a100-sxm-80",
            batch=1,
            data="GSM8K",
            tokens_per_step=5.0,
        ),
    ),
)
