"""PPD: trained prompt tokens behind every node of a tree draft for the next step in the verify pass."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="ppd",
    title="Parallel prompt decoding",
    citation=Citation(
        authors="Chen, Luk, Yiu, Li, Mishchenko, Venieris, Fan",
        title="Hardware-Aware Parallel Prompt Decoding for Memory-Efficient Acceleration of LLM Inference",
        year=2024,
        arxiv="2405.18628",
    ),
    group="heads",
    read="code",
    exact_when="temperature 0; with typical acceptance it is lossy",
    draft=(Draft(by="rows"),),
    shape=Shape(kind="static_tree", nodes=33, depth=3, riding=71),
    verify=Verify(rule="match"),
    systems=("PPD",),
    reported=(
        Reported(
            quantity="tokens_per_s", value=88.0, source="arXiv:2405.18628, table 1", model="vicuna-7b",
            device="a100-sxm-40", dtype="fp16", batch=1, data="MT-Bench", tokens_per_step=2.54,
            note="typical acceptance; 29 ms a pass of 105 tokens",
        ),
        Reported(
            quantity="speedup", value=2.24, source="arXiv:2405.18628, table 1", model="vicuna-7b",
            device="a100-sxm-40", dtype="fp16", batch=1, data="MT-Bench", tokens_per_step=2.54,
            note="typical acceptance",
        ),
    ),
    assumed=(
        "shape: the tree of the state with all prompt tokens, of 105 query tokens; two smaller states have 40 and 105",
    ),
)  # fmt: skip
