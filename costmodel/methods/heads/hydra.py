"""Hydra: output heads that each read the tokens guessed before them; the guesses form a static
tree.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="hydra",
    title="Hydra",
    citation=Citation(
        authors="Ankner, Parthasarathy, Nrusimha, Rinard, Ragan-Kelley, Brandon",
        title="Hydra: Sequentially-Dependent Draft Heads for Medusa Decoding",
        year=2024,
        arxiv="2402.05109",
    ),
    group="heads",
    read="code",
    exact_when="temperature 0; lossy with typical acceptance",
    # zankner/Hydra, hydra/model/hydra_heads/mlp_head.py: two matrices read the state and two to five
    # vectors with it, 3.5 in the mean; hydra/model/hydra_choices.py: the tree
    draft=(Draft(by="heads", matrices=((1, 3.5), (1, 3.5)), heads=4, depths_per_pass=1),),
    shape=Shape(kind="static_tree", nodes=63, depth=4),
    verify=Verify(rule="match"),
    systems=("Hydra",),
    recorded=("catalogue/smollm2-135m--hydra--greedy",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.88,
            source="arXiv:2503.01840, table 1",
            model="vicuna-13b",
            device="a100-sxm-80",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="MT-bench",
            tokens_per_step=3.65,
        ),
        Reported(
            quantity="speedup",
            value=2.07,
            source="Spec-Bench leaderboard",
            model="vicuna-7b",
            device="a100-sxm-80",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="Spec-Bench",
            tokens_per_step=3.26,
        ),
        Reported(
            quantity="speedup",
            value=1.31,
            source="arXiv:2402.05109, abstract",
            relative_to="medusa",
            note="Hydra++",
        ),
    ),
    assumed=("draft: Hydra++'s own layer and three more matrices per head are left out",),
)
