"""Token Recycling: the likeliest successors of every token, kept from earlier passes, fill a fixed
tree.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="token-recycling",
    title="Token Recycling",
    citation=Citation(
        authors="Luo et al.",
        title=(
            "Turning Trash into Treasure: Accelerating Inference of Large Language Models with"
            " Token Recycling"
        ),
        year=2024,
        arxiv="2408.08696",
    ),
    group="model free",
    read="code",
    draft=(Draft(by="lookup"),),
    # Luowaterbi/TokenRecycling, model/recycling/tree_template_.py: template 2.2.2, root excluded
    shape=Shape(kind="static_tree", nodes=80, depth=6),
    verify=Verify(rule="fixed_candidates"),
    systems=("Token Recycling",),
    reproduced=(
        "tests/real_runs/published_numbers/test_shared_tables.py::test_token_recycling_on_two_cards",
    ),
    reported=(
        Reported(
            quantity="speedup",
            value=2.22,
            source="Spec-Bench leaderboard",
            model="vicuna-7b",
            device="a100-sxm-80",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="Spec-Bench",
            tokens_per_step=2.73,
        ),
        Reported(
            quantity="speedup",
            value=1.4,
            source="Spec-Bench leaderboard",
            model="vicuna-7b",
            device="rtx-3090",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="Spec-Bench",
            tokens_per_step=2.73,
        ),
        Reported(
            quantity="speedup",
            value=2.0,
            source="arXiv:2408.08696, abstract",
            note="about, on all sizes tested",
        ),
    ),
)
