"""SuffixDecoding: what followed the longest matching suffix in this and earlier answers, as long as
it is likely.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

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
    read="code",
    draft=(Draft(by="lookup", may_propose_nothing=True),),
    shape=Shape(kind="chain"),
    verify=Verify(rule="fixed_candidates"),
    engines={"vllm": "suffix"},
    reported=(
        Reported(
            quantity="tokens_per_s",
            value=286.0,
            source="docs/suffix-decoding.rst of snowflakedb/ArcticInference",
            data="SWE-Bench",
            note="vLLM 0.8.4; 75.8 without drafts",
        ),
    ),
    assumed=(
        "shape: one chain, as vLLM drafts it; the code (csrc/suffix_decoding) also makes trees",
        (
            "shape.nodes: searched; as many as match, while their probabilities multiply to 0.1 or"
            " more (arctic_inference/vllm/config.py)"
        ),
    ),
)
