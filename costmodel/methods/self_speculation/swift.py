"""SWIFT: the target drafts with layers left out that are chosen while it runs."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Stop, Verify

METHOD = Method(
    slug="swift",
    title="SWIFT",
    citation=Citation(
        authors="Xia, Li, Zhang, Du, Li",
        title="SWIFT: On-the-Fly Self-Speculative Decoding for LLM Inference Acceleration",
        year=2024,
        arxiv="2410.06916",
    ),
    group="self speculation",
    read="code",
    # hemingkx/SWIFT, eval_llama.sh and model/swift/utils.py: 45 % of the attention and feed-forward of
    # all layers but the first and the last are left out; 25 tokens, up to one of a probability
    # below 0.8
    draft=(Draft(by="target", layers=0.57, first_layers=False, own_cache=False),),
    shape=Shape(kind="chain", nodes=25),
    stop=Stop(rule="probability", at=0.8, unlikely_tokens=1),
    verify=Verify(rule="token_rejection"),
    systems=("SWIFT",),
    reported=(
        Reported(
            quantity="speedup",
            value=1.3,
            source="arXiv:2410.06916, abstract",
            note="1.3 to 1.6 are stated",
        ),
    ),
    assumed=(
        "draft.layers: of a target of 40 layers",
        "shape: a chain; each level of it also verifies 3 to 10 candidates there",
        "draft: passes of the search for the layers are left out",
    ),
)
