"""EXSPEC: requests whose drafts were accepted to the same length decode together, so that nothing
is realigned.
"""

from costmodel.method import Batch, Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="exspec",
    title="EXSPEC",
    citation=Citation(
        authors="Zhang et al.",
        title="Batch Speculative Decoding Done Right",
        year=2025,
        arxiv="2510.22876",
    ),
    group="serving",
    read="paper",
    exact_when="temperature 0",
    draft=(Draft(by="model"),),
    shape=Shape(kind="chain", nodes=5),
    verify=Verify(rule="match"),
    batch=Batch(ragged="regroup"),
    systems=("EXSPEC (Batch Spec Decoding Done Right)",),
    reported=(
        Reported(
            quantity="tokens_per_s",
            value=156.4,
            source="arXiv:2510.22876, table 2",
            model="vicuna-7b",
            draft="vicuna-68m",
            device="a100-sxm-80",
            dtype="fp16",
            batch=8,
            temperature=0.0,
            data="Spec-Bench",
            draft_tokens=5,
        ),
    ),
)
