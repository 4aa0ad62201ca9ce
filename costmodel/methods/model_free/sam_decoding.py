"""SAM-Decoding: a suffix automaton finds the longest match in the text so far, and its continuation
is the draft.
"""

from costmodel.method import Citation, Draft, Method, Reported, Shape, Verify

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
    read="code",
    draft=(Draft(by="lookup", may_propose_nothing=True),),
    shape=Shape(kind="chain"),
    verify=Verify(rule="fixed_candidates"),
    engines={"tensorrt-llm": "suffix_automaton"},
    reported=(
        Reported(
            quantity="speedup",
            value=1.84,
            source="README of hyx1999/SAM-Decoding",
            model="vicuna-7b",
            device="RTX A6000",
            dtype="fp16",
            batch=1,
            temperature=0.0,
            data="Spec-Bench",
            tokens_per_step=2.3,
            note="with a stored corpus",
        ),
    ),
    assumed=(
        (
            "draft: the automaton of the text so far alone, without a stored corpus and without a"
            " second drafter"
        ),
        (
            "shape.nodes: searched; four times the tokens that match, 59 at most"
            " (samd_sam_only/sam/dyn_sam.py of hyx1999/SAM-Decoding), or 39 beside a second drafter"
        ),
    ),
)
