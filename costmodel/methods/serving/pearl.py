"""PEARL: the draft model goes on drafting while the target verifies, and verifies its first token
meanwhile.
"""

from costmodel.method import Batch, Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="pearl",
    title="PEARL",
    citation=Citation(
        authors="Liu, Li, Lv, Liu, Zhu, Wang, Hu",
        title="PEARL: Parallel Speculative Decoding with Adaptive Draft Length",
        year=2024,
        arxiv="2408.11850",
    ),
    group="serving",
    read="paper",
    draft=(Draft(by="model"),),
    shape=Shape(
        kind="chain"
    ),  # the paper sets as many draft tokens as a verify pass has draft passes
    verify=Verify(rule="token_rejection"),
    batch=Batch(drafts_during_verify=True, own_device=True),
    systems=("PEARL",),
    reported=(
        Reported(
            quantity="speedup", value=3.79, source="arXiv:2408.11850, abstract", note="largest"
        ),
        Reported(
            quantity="speedup",
            value=1.52,
            source="arXiv:2408.11850, abstract",
            relative_to="speculative-decoding",
            note="largest",
        ),
    ),
)
