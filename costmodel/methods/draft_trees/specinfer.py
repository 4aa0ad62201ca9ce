"""SpecInfer: a small model drafts a static tree; siblings are drawn independently and tried in
turn.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="specinfer",
    title="SpecInfer",
    citation=Citation(
        authors=(
            "Miao, Oliaro, Zhang, Cheng, Wang, Zhang, Wong, Zhu, Yang, Shi, Shi, Chen, Arfeen,"
            " Abhyankar, Jia"
        ),
        title=(
            "SpecInfer: Accelerating Large Language Model Serving with Tree-based Speculative"
            " Inference and Verification"
        ),
        year=2023,
        arxiv="2305.09781",
    ),
    group="draft trees",
    read="paper",
    draft=(Draft(by="model"),),
    shape=Shape(
        kind="static_tree", nodes=40, depth=8
    ),  # five chains of eight tokens, as Sequoia ran it
    verify=Verify(rule="with_replacement"),
    systems=("SpecInfer",),
    reproduced=(
        "tests/real_runs/published_numbers/test_shared_tables.py::test_sequoias_sweep_of_chains_side_by_side",
    ),
    reported=(
        Reported(
            quantity="speedup",
            value=3.45,
            source="arXiv:2402.12374, table 1",
            model="llama-2-7b",
            draft="llama-68m",
            device="a100-pcie-80",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="C4",
            tokens_per_step=3.96,
        ),
    ),
)
