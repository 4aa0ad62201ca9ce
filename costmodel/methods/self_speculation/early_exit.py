"""Early exit: the target's own first layers draft, all of its layers verify."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="early-exit",
    title="LayerSkip",
    citation=Citation(
        authors=(
            "Elhoushi, Shrivastava, Liskovich, Hosmer, Wasti, Lai, Mahmoud, Acun, Agarwal, Roman,"
            " Aly, Chen, Wu"
        ),
        title="LayerSkip: Enabling Early Exit Inference and Self-Speculative Decoding",
        year=2024,
        arxiv="2404.16710",
    ),
    group="self speculation",
    read="code",
    exact_when="temperature 0",
    draft=(Draft(by="target", layers=1 / 3, matrices=((1, 1),), own_cache=False),),
    shape=Shape(kind="chain"),
    verify=Verify(rule="match"),
    engines={"transformers": "early_exit"},
    reported=(
        Reported(
            quantity="speedup",
            value=2.16,
            source="arXiv:2404.16710, abstract",
            model="Llama models",
            data="CNN/DM summaries",
            note="largest",
        ),
    ),
    assumed=(
        (
            "draft.layers: a third of the target's, as in our recordings; 8 of 32 and six tokens in the"
            " README of facebookresearch/LayerSkip, whose targets are tuned for exits"
        ),
        (
            "draft.matrices: one bridge matrix, as in our recordings; the target is not tuned for"
            " exits there"
        ),
        (
            "verify.remaining_layers: off, as Transformers' assistant_early_exit runs all layers"
            " again; LayerSkip's own code (self_speculation_generator.py) runs the remaining ones"
        ),
    ),
)
