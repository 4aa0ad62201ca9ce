"""SuffixDecoding: what followed the longest matching suffix in this and earlier answers, as long as
it is likely.
"""

from costmodel.method import Citation, Draft, Method, Shape, Verify

METHOD = Method(
    slug="suffix-decoding",
    title="SuffixDecoding",
    citation=Citation(
        authors="Oliaro, Jia, Campos, Qiao",
        title="SuffixDecoding: Extreme Speculative Decoding for Emerging AI Applications",
        year=2024,
        arxiv="2411.04975",
    ),
    group="model free",
    read="abstract",
    draft=(Draft(by="lookup", may_propose_nothing=True),),
    shape=Shape(kind="chain"),
    verify=Verify(rule="fixed_candidates"),
    engines={"vllm": "suffix"},
    assumed=("shape: one chain, as vLLM drafts it; the paper also verifies trees",),
)
