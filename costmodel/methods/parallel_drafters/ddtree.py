"""DDTree: the marginals of a block drafter, made in one pass, grow into a tree of the likeliest
paths.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="ddtree",
    title="DDTree",
    citation=Citation(
        authors="Ringel, Romano",
        title="Accelerating Speculative Decoding with Block Diffusion Draft Trees",
        year=2026,
        arxiv="2604.12989",
    ),
    group="parallel drafters",
    read="code",
    draft=(Draft(by="head", layers=5, features=5, depths_per_pass=0, rereads=True),),
    shape=Shape(kind="dynamic_tree", nodes=256, depth=15),
    verify=Verify(rule="match"),
    systems=("DDTree",),
    reproduced=(
        "tests/costmodel/optimizers/candidates/test_block_trees.py::test_published_trees_emit_what_their_chains_foretell",
    ),
    reported=(
        Reported(
            quantity="speedup",
            value=7.52,
            source="liranringel/ddtree@0037aec, src/data/results.tex (arXiv:2604.12989)",
            model="qwen3-8b",
            dtype="bf16",
            batch=1,
            temperature=0.0,
            data="MATH-500",
            tokens_per_step=10.73,
        ),
        Reported(
            quantity="speedup",
            value=4.10,
            source="liranringel/ddtree@0037aec, src/data/results.tex (arXiv:2604.12989)",
            model="qwen3-8b",
            dtype="bf16",
            batch=1,
            temperature=0.0,
            data="MT-Bench",
            tokens_per_step=6.58,
        ),
    ),
    assumed=(
        "draft: the drafter is DFlash's",
        (
            "shape.nodes: 256 of the budgets 16 to 1024, of which every published row has the"
            " fastest, which it does not name"
        ),
    ),
)
