"""REST: what a store of other texts holds after the longest end of the text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from real_runs.decoding.batch_speculative import per_request
from real_runs.drafters.drafter import Drafter, LoopDrafter, RecordedDrafter
from real_runs.drafters.retrieval import TREE_DEPTH, RetrievedChain, TextStore, retrieved_arrays
from real_runs.drafters.target import Target


def retrieval_drafter(
    store: TextStore, *, nodes: int, parameters: Mapping[str, Any], depth: int = TREE_DEPTH
) -> RecordedDrafter:
    """What a store of other texts holds after the longest end of the text."""
    return RecordedDrafter(
        title=(
            f"store of {len(store):,} tokens, trees of {nodes} of what followed the longest match"
        ),
        parameters={**parameters, "store_tokens": len(store), "nodes": nodes, "depth": depth},
        notes=(
            "Lengths are those of the chain of the most frequent continuations, exact up to"
            f" {depth} draft tokens. Trees hold the {nodes} most frequent prefixes with shares of"
            " occurrences as probabilities: exact for any budget up to that. Nothing that is"
            " recorded is in the store."
        ),
        observe=lambda prompt, generation: retrieved_arrays(
            store, prompt, generation.tokens, nodes=nodes, depth=depth
        ),
    )


def _observe(target: Target) -> RecordedDrafter:
    texts, parameters = target.heads.texts()
    return retrieval_drafter(
        TextStore(texts), nodes=target.options.retrieval_nodes, parameters=parameters
    )


def _propose(target: Target) -> LoopDrafter:
    store = TextStore(target.heads.texts()[0])
    return LoopDrafter(
        chain=lambda: RetrievedChain(store),
        batch=lambda prompts: per_request([RetrievedChain(store) for _ in prompts]),
    )


DRAFTER = Drafter(method="rest", records="lengths", observe=_observe, propose=_propose)
