"""What does each drafter leave in a recording, and how is it named there?

A drafter is data here: a name, its parameters, the layer it looks at and a function from a finished
text to arrays over output positions. Leaves out running it (`decoding.speculative`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from hardware_profiles.errors import UnknownNameError
from real_runs.decoding.generate import Generation
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import SpeculativeRun
from real_runs.drafters.early_exit import DRAFT_DEPTH, RANK_WIDTH, chain_lengths, token_ranks
from real_runs.drafters.layer_skip import GapLlama, text_ranks
from real_runs.drafters.prompt_lookup import lookup_lengths
from real_runs.drafters.suffix_automaton import suffix_lengths
from real_runs.drafters.token_recycling import (
    CANDIDATES,
    NOTES,
    TokenRecycling,
    default_tree,
    walked_trace,
)
from real_runs.models.bridge import Bridge
from real_runs.models.llama import Llama
from traces.kinds.acceptance import Provenance
from traces.kinds.expansions import Expansions

DRAFTERS = (
    "prompt-lookup",
    "early-exit",
    "suffix-automaton",
    "layer-skip",
    "feature-head",
    "medusa-heads",
    "draft-model",
    "token-recycling",
    "lookahead",
    "jacobi",
    "rest",
    "cascade",
    "hydra",
    "ppd",
)

Observation = Callable[[Sequence[int], Generation], Mapping[str, NDArray[Any] | Expansions]]
Count = Callable[[Sequence[int], Generation], Mapping[str, int]]
Decoding = Callable[[Sequence[int], Sampler, int], SpeculativeRun]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedDrafter:
    """One drafter as a recording sees it.

    Attributes:
        name: of `DRAFTERS`.
        method: slug of the decoding method it belongs to.
        title: what it is, in words.
        parameters: JSON values that fix what it proposes.
        notes: what a reader of the trace must know.
        observe: prompt ids and generation -> `emitted` and, where they apply, `drafted`, `rank`,
            `draft_ids`, `draft_probs` and `expansions`.
        count: prompt ids and generation -> numbers of the whole request, which become columns;
            None: it has none.
        trace_fields: further fields of the trace.
        capture_layer: layers after which it reads the target's hidden states; None: it reads none.
        decode: of a drafter that cannot watch a finished text: prompt ids, sampler and length limit
            -> a run of its own, which then stands in place of the generation.
        policy_draft_tokens: draft tokens of its steps, where nothing else can be replayed; None:
            any can be.
    """

    name: str
    method: str
    title: str
    parameters: Mapping[str, Any]
    notes: str
    observe: Observation
    count: Count | None = None
    trace_fields: Mapping[str, Any] = field(default_factory=dict)
    capture_layer: int | None = None
    decode: Decoding | None = None
    policy_draft_tokens: int | None = None


def prompt_lookup_drafter(sizes: Sequence[int], most: int) -> RecordedDrafter:
    """Prompt lookup with n-gram sizes and a longest proposal."""

    def observe(
        prompt: Sequence[int], generation: Generation
    ) -> Mapping[str, NDArray[Any] | Expansions]:
        lengths = lookup_lengths(prompt, generation.tokens, sizes=sizes, most=most)
        return {"emitted": lengths.emitted, "drafted": lengths.drafted}

    return RecordedDrafter(
        name="prompt-lookup",
        method="n-gram",
        title=f"prompt lookup, n-grams of {'/'.join(map(str, sizes))} tokens",
        parameters={
            "ngram_sizes": list(sizes),
            "most_draft_tokens": most,
            "match": "most recent earlier",
        },
        notes=f"Exact for chains of up to {most} draft tokens.",
        observe=observe,
    )


def early_exit_drafter(
    model: Llama, bridge: Bridge, *, parameters: Mapping[str, Any]
) -> RecordedDrafter:
    """Early exit through a fitted bridge."""

    def observe(
        prompt: Sequence[int], generation: Generation
    ) -> Mapping[str, NDArray[Any] | Expansions]:
        assert generation.hidden is not None
        rank = token_ranks(model, bridge, generation.hidden, generation.tokens)
        return {"emitted": chain_lengths(rank), "rank": rank}

    return RecordedDrafter(
        name="early-exit",
        method="early-exit",
        title=f"early exit after {bridge.exit_layer} of {model.config.layers} layers, ridge bridge",
        parameters={**parameters, "draft_depth": DRAFT_DEPTH, "candidates": RANK_WIDTH},
        notes=(
            "Depth invariant: the first layers are the target's, so true tokens are re-read at"
            f" every depth. Meant for drafts of up to {DRAFT_DEPTH} levels; exact at any depth, for"
            f" chains and for static trees over the top {RANK_WIDTH} candidates."
        ),
        observe=observe,
        trace_fields={"rank_width": RANK_WIDTH, "depth_invariant": True},
        capture_layer=bridge.exit_layer,
    )


def suffix_automaton_drafter(least_match: int, most: int) -> RecordedDrafter:
    """Suffix automaton with a least match length and a longest proposal."""

    def observe(
        prompt: Sequence[int], generation: Generation
    ) -> Mapping[str, NDArray[Any] | Expansions]:
        lengths = suffix_lengths(prompt, generation.tokens, least_match=least_match, most=most)
        return {"emitted": lengths.emitted, "drafted": lengths.drafted}

    return RecordedDrafter(
        name="suffix-automaton",
        method="n-gram",
        title=f"suffix automaton over the request, matches of {least_match} tokens or more",
        parameters={
            "least_match": least_match,
            "most_draft_tokens": most,
            "match": "longest suffix, most recent earlier",
        },
        notes=(
            f"Exact for chains of up to {most} draft tokens. An n-gram lookup whose n has no upper"
            " limit."
        ),
        observe=observe,
    )


def layer_skip_drafter(
    model: Llama, gap: tuple[int, int], bridge: Bridge | None, *, parameters: Mapping[str, Any]
) -> RecordedDrafter:
    """The target less the layers gap[0]..gap[1]-1, with a fitted bridge or none in their place."""
    start, stop = gap
    drafter = GapLlama(model, start=start, stop=stop, bridge=bridge)

    def observe(
        prompt: Sequence[int], generation: Generation
    ) -> Mapping[str, NDArray[Any] | Expansions]:
        rank = text_ranks(drafter, prompt, generation.tokens)
        return {"emitted": chain_lengths(rank), "rank": rank}

    crossing = "ridge bridge" if bridge else "no bridge"
    return RecordedDrafter(
        name="layer-skip",
        method="layer-skip",
        title=f"layers {start} to {stop - 1} of {model.config.layers} skipped, {crossing}",
        parameters={**parameters, "draft_depth": DRAFT_DEPTH, "candidates": RANK_WIDTH},
        notes=(
            "Depth invariant: the drafter has a cache of its own, in which true tokens are re-read"
            " in draft mode at every depth. Ranks come from one pass over the text, where a step"
            " reads a token or a few at a time: a near tie may round the other way. Exact at any"
            f" depth, for chains and for static trees over the top {RANK_WIDTH} candidates."
        ),
        observe=observe,
        trace_fields={"rank_width": RANK_WIDTH, "depth_invariant": True},
    )


def token_recycling_drafter(model: Llama, nodes: int) -> RecordedDrafter:
    """Token recycling with its own tree; every request starts with an empty table.

    A table kept over requests would tie each request to all before it: no part of such a recording
    could be taken out, drawn again or resumed.
    """
    tree = default_tree(nodes=nodes, candidates=min(CANDIDATES, model.config.vocabulary))

    def decode(prompt: Sequence[int], sampler: Sampler, most: int) -> SpeculativeRun:
        from real_runs.decoding.tree_speculative import speculate_tree

        table = TokenRecycling(
            model.config.vocabulary, candidates=min(CANDIDATES, model.config.vocabulary)
        )
        return speculate_tree(
            model, prompt, table, sampler, tree=tree, max_new_tokens=most, learn=table.learn
        )

    return RecordedDrafter(
        name="token-recycling",
        method="token-recycling",
        title=f"token recycling, tree of {tree.draft_tokens} draft tokens",
        parameters={
            "tree": tree.to_json(),
            "candidates": CANDIDATES,
            "table": "empty before every request",
        },
        notes=(
            f"{NOTES} Every request starts with an empty table: one kept over requests would draft"
            " better."
        ),
        observe=lambda _, __: {},
        decode=decode,
        policy_draft_tokens=tree.draft_tokens,
    )


def walked_lengths(run: SpeculativeRun) -> dict[str, NDArray[Any] | Expansions]:
    """The lengths that a run leaves at the positions where its steps started."""
    trace = walked_trace([run], Provenance())
    assert trace.emitted is not None
    assert trace.drafted is not None
    return {"emitted": trace.emitted, "drafted": trace.drafted}


def check_drafters(names: Sequence[str]) -> None:
    """Insist on known drafters.

    Raises:
        UnknownNameError: another name.
    """
    for name in names:
        if name not in DRAFTERS:
            raise UnknownNameError("drafter", name, DRAFTERS, key="drafters")
