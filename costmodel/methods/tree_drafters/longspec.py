"""LongSpec: a one-layer head with a window of its own reads the target's cache; a beam makes the
tree.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="longspec",
    title="LongSpec",
    citation=Citation(
        authors="Yang, Du, Zhang, Wang, Pang, Du, An",
        title=(
            "LongSpec: Long-Context Speculative Decoding with Efficient Drafting and Verification"
        ),
        year=2025,
        arxiv="2502.17421",
    ),
    group="tree drafters",
    read="paper",
    exact_when="temperature 0",
    draft=(Draft(by="head", layers=1, own_cache=False),),
    shape=Shape(kind="dynamic_tree", nodes=68, depth=5, width=16, beam=16),
    verify=Verify(rule="match"),
    systems=("LongSpec",),
    reproduced=(
        "tests/real_runs/published_numbers/test_shared_tables.py::test_longspec_slows_down_with_the_prompt",
    ),
    reported=(
        Reported(
            quantity="speedup",
            value=2.23,
            source="arXiv:2502.17421, table 1",
            model="vicuna-7b",
            device="a100-sxm-80",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="GovReport",
            tokens_per_step=3.57,
            draft_tokens=68,
        ),
        Reported(
            quantity="tokens_per_s",
            value=102.23,
            source="arXiv:2502.17421, table 1",
            model="vicuna-7b",
            device="a100-sxm-80",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="GovReport",
            tokens_per_step=3.57,
            draft_tokens=68,
        ),
        Reported(
            quantity="speedup",
            value=1.98,
            source="arXiv:2502.17421, table 1",
            model="vicuna-7b",
            device="a100-sxm-80",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="LCC",
            tokens_per_step=3.73,
            draft_tokens=68,
        ),
    ),
    assumed=(
        (
            "draft.layers: the window of 512 tokens and the pass over the target's cache are one"
            " attention over all cached tokens"
        ),
        "shape.width: four children of the root there, 16 kept at every later level",
    ),
)
