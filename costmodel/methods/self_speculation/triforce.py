"""TriForce: the target drafts with a retrieved part of its cache, itself drafted for by a small
model.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="triforce",
    title="TriForce",
    citation=Citation(
        authors="Sun, Chen, Yang, Tian, Chen",
        title=(
            "TriForce: Lossless Acceleration of Long Sequence Generation with Hierarchical"
            " Speculative Decoding"
        ),
        year=2024,
        arxiv="2404.11912",
    ),
    group="self speculation",
    read="paper",
    draft=(
        Draft(by="target", context_tokens=4096, own_cache=False),
        Draft(by="model", context_tokens=256, tokens=2, acceptance=0.46),
    ),
    shape=Shape(kind="chain", nodes=6),
    verify=Verify(rule="token_rejection"),
    systems=("TriForce",),
    reproduced=(
        "tests/real_runs/published_numbers/test_shared_tables.py::test_triforce_with_its_cache_on_the_host",
    ),
    reported=(
        Reported(
            quantity="speedup",
            value=2.31,
            source="arXiv:2404.11912, table 2",
            model="llama-2-7b",
            draft="llama-68m",
            device="a100-sxm-80",
            dtype="fp16",
            batch=1,
            context=124_928,
            temperature=0.0,
            data="PG-19",
            acceptance=0.9234,
            draft_tokens=6,
            note="acceptance 0.9234",
        ),
    ),
    assumed=(
        (
            "draft[1].tokens: figure 1; the code (utils/decoding.py of Infini-AI-Lab/TriForce) verifies"
            " after every token, which reads 256 cached ones (test/on_chip.py)"
        ),
        "draft[1].acceptance: what the small model reaches against the whole target, table 2",
        "draft[0].own_cache: the retrieved part of the cache is not billed to memory",
    ),
)
