"""DySpec: a draft model's likeliest nodes make the tree, best first, as long as their path
probability suffices.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="dyspec",
    title="DySpec",
    citation=Citation(
        authors="Xiong et al.",
        title="DySpec: Faster Speculative Decoding with Dynamic Token Tree Structure",
        year=2024,
        arxiv="2410.11744",
    ),
    group="draft trees",
    read="paper",
    draft=(Draft(by="model"),),
    shape=Shape(kind="dynamic_tree", nodes=64, least_probability=1 / 64),
    verify=Verify(rule="without_replacement"),
    systems=("DySpec",),
    reproduced=(
        "tests/real_runs/published_numbers/test_shared_tables.py::test_median_errors_of_systems",
    ),
    reported=(
        Reported(
            quantity="speedup",
            value=3.15,
            source="arXiv:2410.11744, tables 1 to 3",
            model="llama-2-7b",
            draft="llama-68m",
            device="a100-sxm-40",
            batch=1,
            context=128,
            temperature=0.0,
            data="C4",
            tokens_per_step=5.25,
        ),
        Reported(
            quantity="speedup",
            value=2.2,
            source="arXiv:2410.11744, tables 1 to 3",
            model="llama-2-7b",
            draft="llama-68m",
            device="a100-sxm-40",
            batch=1,
            context=128,
            temperature=0.6,
            data="C4",
            tokens_per_step=3.71,
        ),
    ),
    assumed=(
        "shape.nodes and shape.least_probability: set by hand for every run there, up to 768 nodes",
    ),
)
