"""EAGLE: a one-layer head predicts the target's next feature; a fixed tree of 25 nodes is
verified.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="eagle",
    title="EAGLE",
    citation=Citation(
        authors="Li, Wei, Zhang, Zhang",
        title="EAGLE: Speculative Sampling Requires Rethinking Feature Uncertainty",
        year=2024,
        arxiv="2401.15077",
    ),
    group="tree drafters",
    read="code",
    draft=(Draft(by="head", layers=1, inputs=2, rereads=True),),
    shape=Shape(kind="static_tree", nodes=25, depth=5),
    verify=Verify(rule="fixed_candidates"),
    systems=("EAGLE",),
    reported=(
        Reported(
            quantity="speedup",
            value=3.07,
            source="arXiv:2503.01840, table 1",
            model="vicuna-13b",
            device="a100-sxm-80",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="MT-bench",
            tokens_per_step=3.98,
        ),
        Reported(
            quantity="speedup",
            value=2.1,
            source="Spec-Bench leaderboard",
            model="vicuna-7b",
            device="a100-sxm-80",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="Spec-Bench",
            tokens_per_step=3.58,
        ),
        Reported(
            quantity="speedup",
            value=3.33,
            source="arXiv:2401.15077, table 1",
            model="vicuna-7b",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="HumanEval",
            tokens_per_step=4.29,
        ),
    ),
)
