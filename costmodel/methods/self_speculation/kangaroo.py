"""Kangaroo: two layers of the target and an adapter draft until they are unsure; the other layers
verify.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Stop, Verify

METHOD = Method(
    slug="kangaroo",
    title="Kangaroo",
    citation=Citation(
        authors="Liu, Tang, Liu, Ni, Tang, Han, Wang",
        title="Kangaroo: Lossless Self-Speculative Decoding via Double Early Exiting",
        year=2024,
        arxiv="2404.18911",
    ),
    group="self speculation",
    read="code",
    exact_when="temperature 0",
    # Equationliu/Kangaroo, README and evaluation/inference_kangaroo.py: exit after layer 2, six tokens,
    # threshold 0.6; kangaroo/adapter.py: an attention without a feed-forward
    draft=(Draft(by="target", layers=2, matrices=((4, 1),), own_cache=False),),
    shape=Shape(kind="chain", nodes=6),
    stop=Stop(rule="probability", at=0.6, unlikely_tokens=1, most_tokens=6),
    verify=Verify(rule="match", remaining_layers=True),
    systems=("Kangaroo",),
    reported=(
        Reported(
            quantity="speedup",
            value=1.68,
            source="arXiv:2404.18911, abstract",
            data="Spec-Bench",
            note="largest of its tasks, Vicuna",
        ),
    ),
    assumed=("draft.own_cache: the adapter's one layer of keys and values is left out",),
)
