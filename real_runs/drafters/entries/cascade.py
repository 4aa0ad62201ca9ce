"""Cascade: the target less some layers as a draft model, drafted for by prompt lookup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from real_runs.decoding.generate import Generation
from real_runs.drafters.cascade import Cascade
from real_runs.drafters.drafter import Drafter, LoopDrafter, RecordedDrafter, observed_ranks
from real_runs.drafters.early_exit import RANK_WIDTH
from real_runs.drafters.entries.layer_skip import check_span, shorter_target
from real_runs.drafters.layer_skip import GapLlama, text_ranks
from real_runs.drafters.target import Target


def cascade_drafter(
    drafter: GapLlama, *, inner_tokens: int, draft_tokens: int, parameters: Mapping[str, Any]
) -> RecordedDrafter:
    """The target less some layers as the draft model of a cascade, drafted for by prompt lookup."""
    cascade = Cascade(drafter, inner_tokens=inner_tokens)
    observe, fields = observed_ranks(
        lambda prompt, generation: text_ranks(drafter, prompt, generation.tokens)
    )

    def count(prompt: Sequence[int], generation: Generation) -> Mapping[str, int]:
        return asdict(cascade.walk(prompt, generation.tokens, draft_tokens=draft_tokens)[1])

    return RecordedDrafter(
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
        trace_fields=fields,
    )


def _observe(target: Target) -> RecordedDrafter:
    shorter, _, parameters = shorter_target(target)
    draft_tokens, inner_tokens = target.options.cascade_tokens
    return cascade_drafter(
        shorter, inner_tokens=inner_tokens, draft_tokens=draft_tokens, parameters=parameters
    )


def _propose(target: Target) -> LoopDrafter:
    shorter, options = shorter_target(target)[0], target.options
    return LoopDrafter(
        chain=lambda: Cascade(
            shorter, inner_tokens=options.cascade_tokens[1], sizes=options.ngram_sizes
        )
    )


DRAFTER = Drafter(
    method="staged-speculative-decoding",
    records="ranks",
    observe=_observe,
    propose=_propose,
    check=check_span,
    serves_batches=False,
)
