"""What do a lookahead pool, a Jacobi window, a store of texts and a cascade leave in a recording?

Per drafter: how it is named, what a reader of the trace must know, and a function from a finished
text to arrays over output positions. Leaves out drafters with probabilities
(`heads.observed_heads`) and running them as decoders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from numpy.typing import NDArray

from real_runs.decoding.generate import Generation
from real_runs.drafters.cascade import Cascade
from real_runs.drafters.early_exit import RANK_WIDTH, chain_lengths
from real_runs.drafters.jacobi import jacobi_lengths
from real_runs.drafters.layer_skip import GapLlama, text_ranks
from real_runs.drafters.lookahead import LookaheadSizes, lookahead_lengths
from real_runs.drafters.recorded import RecordedDrafter
from real_runs.drafters.retrieval import TREE_DEPTH, TextStore, retrieved_arrays
from real_runs.models.llama import Llama
from traces.kinds.expansions import Expansions


def lookahead_drafter(model: Llama, sizes: LookaheadSizes) -> RecordedDrafter:
    """A Jacobi window beside the text and the n-grams that it leaves, both empty of earlier
    requests.
    """

    def observe(
        prompt: Sequence[int], generation: Generation
    ) -> Mapping[str, NDArray[Any] | Expansions]:
        lengths = lookahead_lengths(model, prompt, generation.tokens, sizes)
        return {"emitted": lengths.emitted, "drafted": lengths.drafted}

    return RecordedDrafter(
        name="lookahead",
        method="lookahead",
        title=(
            f"lookahead, n-grams of {sizes.ngram}, window {sizes.window}, {sizes.guesses} guesses"
        ),
        parameters={
            **asdict(sizes),
            "riding_tokens": sizes.riding_tokens,
            "pool": "empty before every request",
        },
        notes=(
            "The window depends on the steps before: replay is exact for these sizes, walked from"
            " the first step on; other positions were never a step's start and hold 1. A step with"
            " a guess counts as a draft of N - 1 tokens, the most that can be accepted of it. The"
            " text was known, so that passes computed the window alone."
        ),
        observe=observe,
        policy_draft_tokens=sizes.ngram - 1,
    )


def jacobi_drafter(model: Llama, columns: int) -> RecordedDrafter:
    """A window of guesses behind the text, which every pass corrects."""

    def observe(
        prompt: Sequence[int], generation: Generation
    ) -> Mapping[str, NDArray[Any] | Expansions]:
        lengths = jacobi_lengths(model, prompt, generation.tokens, columns)
        return {"emitted": lengths.emitted, "drafted": lengths.drafted}

    return RecordedDrafter(
        name="jacobi",
        method="jacobi-decoding",
        title=f"Jacobi decoding, a window of {columns} guesses",
        parameters={"columns": columns, "first_guesses": "drawn from the prompt"},
        notes=(
            "The window depends on the steps before: replay is exact for this size, walked from the"
            " first step on; other positions were never a step's start and hold 1. The text was"
            " known, so that passes computed the window alone."
        ),
        observe=observe,
        policy_draft_tokens=columns,
    )


def retrieval_drafter(
    store: TextStore, *, nodes: int, parameters: Mapping[str, Any], depth: int = TREE_DEPTH
) -> RecordedDrafter:
    """What a store of other texts holds after the longest end of the text."""

    def observe(
        prompt: Sequence[int], generation: Generation
    ) -> Mapping[str, NDArray[Any] | Expansions]:
        return retrieved_arrays(store, prompt, generation.tokens, nodes=nodes, depth=depth)

    return RecordedDrafter(
        name="rest",
        method="rest",
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
        observe=observe,
    )


def cascade_drafter(
    drafter: GapLlama, *, inner_tokens: int, draft_tokens: int, parameters: Mapping[str, Any]
) -> RecordedDrafter:
    """The target less some layers as the draft model of a cascade, drafted for by prompt lookup."""
    cascade = Cascade(drafter, inner_tokens=inner_tokens)

    def observe(
        prompt: Sequence[int], generation: Generation
    ) -> Mapping[str, NDArray[Any] | Expansions]:
        rank = text_ranks(drafter, prompt, generation.tokens)
        return {"emitted": chain_lengths(rank), "rank": rank}

    def count(prompt: Sequence[int], generation: Generation) -> Mapping[str, int]:
        return asdict(cascade.walk(prompt, generation.tokens, draft_tokens=draft_tokens)[1])

    return RecordedDrafter(
        name="cascade",
        method="staged-speculative-decoding",
        title=f"{drafter.config.layers} of the target's layers, drafted for by prompt lookup",
        parameters={
            **parameters,
            "inner_tokens": inner_tokens,
            "draft_tokens": draft_tokens,
            "candidates": RANK_WIDTH,
        },
        notes=(
            "Depth invariant: the draft model has a cache of its own, in which true tokens are"
            " re-read. Of what the lookup proposes it accepts what it would write itself, so that"
            " ranks are those of the model alone, exact at any depth. Columns count what it"
            f" drafted and judged in steps of {draft_tokens} draft tokens: drafted_tokens in"
            " draft_passes; of judged_tokens proposed to it, all before them right,"
            " accepted_tokens stayed."
        ),
        observe=observe,
        count=count,
        trace_fields={"rank_width": RANK_WIDTH, "depth_invariant": True},
    )
