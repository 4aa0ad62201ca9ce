"""ADED: trigram statistics of a corpus are searched for a tree of likely continuations."""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

METHOD = Method(
    slug="aded",
    title="ADED",
    citation=Citation(
        authors="Liu, Lei, Zhang, Xu",
        title="Adaptive Draft-Verification",
        year=2024,
        arxiv="2407.12021",
    ),
    group="model free",
    read="code",
    exact_when="temperature 0",
    # liuxukun2000/Adaptix, DraftRetriever/src/lib.rs and mcts_sub.rs: 150 walks of three tokens, the 24
    # best and one more token each, cut to 64
    draft=(Draft(by="lookup", may_propose_nothing=True, host_s=1e-3),),
    shape=Shape(kind="static_tree", nodes=64, depth=4),
    verify=Verify(rule="match"),
    systems=("ADED",),
    reported=(
        Reported(
            quantity="speedup", value=2.5, source="README of liuxukun2000/Adaptix", note="largest"
        ),
    ),
    assumed=(
        "draft.host_s: a millisecond of search",
        "shape: made anew at every step there, of at most so many",
    ),
)
