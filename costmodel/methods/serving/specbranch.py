"""SpecBranch: while the target verifies, drafts branch behind the likeliest tokens where the
drafter is unsure.
"""

from costmodel.method import Batch, Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="specbranch",
    title="SpecBranch",
    citation=Citation(
        authors="Shen et al.",
        title="Speculative Decoding via Hybrid Drafting and Rollback-Aware Branch Parallelism",
        year=2025,
        arxiv="2506.01979",
    ),
    group="serving",
    read="abstract",
    draft=(Draft(by="model"),),
    shape=Shape(kind="chain"),
    verify=Verify(rule="token_rejection"),
    batch=Batch(drafts_during_verify=True, branches=2, branch_at=0.4, own_device=True),
    systems=("SpecBranch",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.04,
            source="arXiv:2506.01979",
            model="llama-7b",
            draft="llama-68m",
            batch=1,
            temperature=0.0,
            data="HumanEval",
        ),
    ),
    assumed=(
        "batch.branches: their number varies there",
        (
            "batch.branch_at: where drafts end and branch is learned there from confidence and"
            " features of the target"
        ),
    ),
)
