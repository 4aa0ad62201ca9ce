"""DEL: exit layer and draft length are chosen in every round from what acceptance each layer
showed.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Stop, Verify

METHOD = Method(
    slug="dynamic-exit-layer",
    title="DEL",
    citation=Citation(
        authors="Entezari Zarch, Gao, Jiang, Annavaram",
        title="DEL: Context-Aware Dynamic Exit Layer for Efficient Self-Speculative Decoding",
        year=2025,
        arxiv="2504.05598",
    ),
    group="self speculation",
    read="code",
    exact_when="temperature 0, against targets that were tuned for early exits",
    own_weights=True,
    draft=(Draft(by="target", layers=0.25, own_cache=False),),
    # 359171110/DEL, a copy of the authors' repository, self_speculation/DEL_speculation_generator.py:
    # at most 18 tokens, in any layer but the last; DEL.py: means that forget by 0.95 a round
    shape=Shape(kind="chain", nodes=18),
    stop=Stop(rule="exit"),
    verify=Verify(rule="match", remaining_layers=True),
    systems=("DEL",),
    reported=(
        Reported(
            quantity="speedup",
            value=2.16,
            source="arXiv:2504.05598, abstract",
            model="LayerSkip Llama models",
            note="2.16 to 2.50 are stated",
        ),
    ),
    assumed=("draft.layers: a quarter, as a mean over rounds",),
)
