"""SAM-Decoding: a suffix automaton finds the longest match in the text so far, and its continuation
is the draft.
"""

from costmodel.method import Citation, Draft, Method, Shape, Verify

METHOD = Method(
    slug="sam-decoding",
    title="SAM-Decoding",
    citation=Citation(
        authors="Hu, Wang, Zhang, Zhang, Li, Chen, Zhang",
        title="SAM Decoding: Speculative Decoding via Suffix Automaton",
        year=2024,
        arxiv="2411.10666",
    ),
    group="model free",
    read="abstract",
    draft=(Draft(by="lookup", may_propose_nothing=True),),
    shape=Shape(kind="chain"),
    verify=Verify(rule="fixed_candidates"),
    engines={"tensorrt-llm": "suffix_automaton"},
    assumed=(
        (
            "draft: the automaton of the text so far alone, without a stored corpus and without a"
            " second drafter"
        ),
    ),
)
