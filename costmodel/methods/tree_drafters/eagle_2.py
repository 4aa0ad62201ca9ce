"""EAGLE-2: a one-layer head on the target's last features drafts a tree that is chosen anew at
every step.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="eagle-2",
    title="EAGLE-2",
    citation=Citation(
        authors="Li, Wei, Zhang, Zhang",
        title="EAGLE-2: Faster Inference of Language Models with Dynamic Draft Trees",
        year=2024,
        arxiv="2406.16858",
    ),
    group="tree drafters",
    read="code",
    draft=(Draft(by="head", layers=1, inputs=2, rereads=True),),
    shape=Shape(kind="dynamic_tree", nodes=59, depth=6, width=10, beam=10),
    verify=Verify(rule="fixed_candidates"),
    systems=("EAGLE-2",),
    reported=(
        Reported(
            quantity="speedup",
            value=4.26,
            source="arXiv:2503.01840, table 1",
            model="vicuna-13b",
            device="a100-sxm-80",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="MT-bench",
            tokens_per_step=4.83,
        ),
        Reported(
            quantity="speedup",
            value=2.36,
            source="Spec-Bench leaderboard",
            model="vicuna-7b",
            device="a100-sxm-80",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="Spec-Bench",
            tokens_per_step=4.34,
        ),
    ),
    assumed=(
        (
            "shape: arXiv:2406.16858, appendix A, of targets of 7 to 8 billion parameters: 60"
            " tokens, which count the root in the code, and six levels of ten; targets of 13 and 70"
            " billion have 50 and 48 tokens there"
        ),
    ),
)
