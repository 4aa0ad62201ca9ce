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
    read="code",
    draft=(Draft(by="model"),),
    shape=Shape(kind="chain"),
    verify=Verify(rule="token_rejection"),
    # Sylvan820/Specbranch, dev/branch_model.py: a draft ends at 0.3; src/util.py: of at most three
    # branches two are left there, by the paper's share of 1 - probability
    batch=Batch(drafts_during_verify=True, branches=2, branch_at=0.3, own_device=True),
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
        (
            "batch.branches: the paper by a note; the code always makes three, and its src, another"
            " draft of it, ends none early"
        ),
        "batch.branch_at: where drafts end is also learned by the paper; the code leaves that out",
    ),
)
