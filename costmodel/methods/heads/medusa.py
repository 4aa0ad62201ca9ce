"""Medusa: extra output heads each guess one later token; the guesses form a static tree."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="medusa",
    title="Medusa-1",
    citation=Citation(
        authors="Cai, Li, Geng, Peng, Lee, Chen, Dao",
        title="Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads",
        year=2024,
        arxiv="2401.10774",
    ),
    group="heads",
    read="paper",
    exact_when="temperature 0; with typical acceptance it is lossy (medusa-typical)",
    draft=(Draft(by="heads", matrices=((1, 1),), heads=4, depths_per_pass=0),),
    shape=Shape(kind="static_tree", nodes=63, depth=4),
    verify=Verify(rule="match"),
    engines={"vllm": "medusa"},
    systems=("Medusa",),
    reported=(
        Reported(
            quantity="tokens_per_step",
            value=2.59,
            source="arXiv:2503.01840, table 1",
            model="vicuna-13b",
            device="a100-sxm-80",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="MT-bench",
        ),
        Reported(
            quantity="speedup",
            value=2.07,
            source="arXiv:2503.01840, table 1",
            model="vicuna-13b",
            device="a100-sxm-80",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="MT-bench",
            tokens_per_step=2.59,
        ),
    ),
    assumed=("draft.heads: four heads, as deep as the published tree",),
)
