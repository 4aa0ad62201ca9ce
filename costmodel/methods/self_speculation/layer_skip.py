"""Layer skip: the target drafts with some of its middle layers left out, and verifies with all of
them.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="layer-skip",
    title="Draft & Verify",
    citation=Citation(
        authors="Zhang, Wang, Li, Shou, Chen, Chen, Mehrotra",
        title=(
            "Draft & Verify: Lossless Large Language Model Acceleration via Self-Speculative"
            " Decoding"
        ),
        year=2023,
        arxiv="2309.08168",
    ),
    group="self speculation",
    read="code",
    # dilab-zju/self-speculative-decoding, skip_layers.json: of four targets 0.52 (LLaMA-2 70B) to 0.63
    # (13B) of the weights run, attention and feed-forward being left out apart
    draft=(Draft(by="target", layers=0.6, first_layers=False, own_cache=False),),
    shape=Shape(kind="chain"),
    verify=Verify(rule="token_rejection"),
    reported=(
        Reported(
            quantity="speedup",
            value=1.99,
            source="arXiv:2309.08168, abstract",
            note="LLaMA-2 and its fine-tuned variants, largest of the tasks",
        ),
    ),
    assumed=(
        "draft.layers: the mean of the four; they are searched per model",
        (
            "shape, stop: the notebooks draft at most 12 tokens, up to a probability that follows how"
            " many matched (decoding.py)"
        ),
    ),
)
