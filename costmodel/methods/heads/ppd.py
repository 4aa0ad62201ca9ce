"""PPD: trained prompt tokens behind every node of a tree draft for the next step in the verify
pass.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="ppd",
    title="Parallel prompt decoding",
    citation=Citation(
        authors="Chen, Luk, Yiu, Li, Mishchenko, Venieris, Fan",
        title=(
            "Hardware-Aware Parallel Prompt Decoding for Memory-Efficient Acceleration of LLM"
            " Inference"
        ),
        year=2024,
        arxiv="2405.18628",
    ),
    group="heads",
    read="code",
    exact_when="temperature 0; with typical acceptance it is lossy",
    draft=(Draft(by="rows"),),
    shape=Shape(kind="state_trees", nodes=105, depth=3, riding=3),
    verify=Verify(rule="match"),
    systems=("PPD",),
    recorded=("catalogue/smollm2-135m--ppd--greedy",),
    reproduced=(
        "tests/costmodel/optimizers/trees/test_published_trees.py::test_trees_of_105_tokens_have_the_sizes_of_the_papers_table",
        "tests/real_runs/published_numbers/test_prompt_decoding.py::test_passes_by_the_size_of_the_tree",
    ),
    reported=(
        Reported(
            quantity="tokens_per_s",
            value=88.0,
            source="arXiv:2405.18628, table 1",
            model="vicuna-7b",
            device="a100-sxm-40",
            dtype="fp16",
            batch=1,
            data="MT-Bench",
            tokens_per_step=2.54,
            note="typical acceptance; 29 ms a pass",
        ),
        Reported(
            quantity="speedup",
            value=2.24,
            source="arXiv:2405.18628, table 1",
            model="vicuna-7b",
            device="a100-sxm-40",
            dtype="fp16",
            batch=1,
            data="MT-Bench",
            tokens_per_step=2.54,
            note="typical acceptance",
        ),
    ),
    assumed=(
        (
            "shape.riding: the code puts the root's three prompt tokens on top of the 105"
            " candidates and prompt tokens that the paper calls the input's length"
        ),
    ),
)
