"""Set block decoding: a target tuned with masked tokens fills blocks of 16 within an entropy
bound.
"""

from costmodel.method import Citation, Method, Refine, Reported, Shape

METHOD = Method(
    slug="set-block-decoding",
    title="Set block decoding",
    citation=Citation(
        title="Set Block Decoding is a Language Model Inference Accelerator",
        year=2025,
        arxiv="2509.04185",
    ),
    group="jacobi",
    read="paper",
    shape=Shape(kind="block", nodes=16),
    refine=Refine(forward="block", commit="entropy_bound", tokens_per_pass=3.23, canvas_tokens=16),
    systems=("Set Block Decoding",),
    reproduced=(
        "tests/costmodel/test_published_costs.py::test_every_cell_of_the_set_block_decoding_table",
    ),
    reported=(
        Reported(
            quantity="tokens_per_step",
            value=3.23,
            source="arXiv:2509.04185",
            model="llama-3.1-8b",
            batch=1,
            temperature=0.0,
            data="MATH500",
            note="tokens per forward",
        ),
        Reported(
            quantity="speedup",
            value=3.0,
            source="arXiv:2509.04185, abstract",
            note="of forwards, 3 to 5 are stated",
        ),
    ),
    assumed=("refine.tokens_per_pass: of MATH500 at the stricter bound",),
)
