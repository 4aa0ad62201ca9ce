"""How does our choice compare with published policies on held-out requests: rows of `rooftree
replay --held-out`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costmodel.draft_shape import OFF, DraftShape, chain, dynamic, given_tree

if TYPE_CHECKING:
    from costmodel.configuration import DecodingConfiguration
    from costmodel.optimizers.held_out.comparison import PolicyComparison
    from costmodel.optimizers.held_out.half import HeldOutDraft

Row = dict[str, Any]


def held_out_rows(
    file: Path,
    question: DecodingConfiguration,
    batches: Sequence[int],
    context: int,
    *,
    match_rate: float | None = None,
    splits: int | None = None,
    seed: int = 0,
) -> list[Row]:
    """Every policy on halves of a recording: one row per batch.

    Args:
        file: of the recording.
        question: target, device and engine, and the draft model of a recorded method that takes
            one; without a target, the recorded one.
        batches: requests that decode together.
        context: cached tokens per request.
        match_rate: share of steps with a proposal, where the recording does not tell.
        splits: times that the requests are halved; None: ten.
        seed: of the splits.

    Raises:
        InputError: a recording without positions, of one request, names that make no sense, or no
            split.
    """
    from costmodel.answers.settings import build_setting
    from costmodel.drafters.checkpoint import loads
    from costmodel.optimizers.drafters.competing import competing
    from costmodel.optimizers.drafters.sources import trace_source
    from costmodel.optimizers.held_out.comparison import SPLITS, compare_policies
    from costmodel.optimizers.recommend import drafter_question

    source = trace_source(
        file, question.method if question.method != "plain-decoding" else "", match_rate
    )
    model = question.deployment.model or source.model
    known = replace(question, deployment=replace(question.deployment, model=model))
    if known.draft_model is not None and not loads(source.method, known.draft_model):
        known = replace(known, draft_model=None)
    (source,) = competing(known, [source])
    setting = build_setting(drafter_question(known, source))
    times = SPLITS if splits is None else splits
    found = compare_policies(
        source, setting, batches=batches, context=context, splits=times, seed=seed
    )
    return [_row(each, source.method, model) for each in found]


def _row(compared: PolicyComparison, method: str, model: str) -> Row:
    """One batch: what each policy does, ours first, and by how much ours is faster."""
    policies = []
    for outcome in (compared.ours, *compared.published):
        often = Counter(_words(draft) for draft in outcome.drafts)
        policies.append(
            {
                "policy": outcome.policy.name,
                "source": outcome.policy.source or None,
                "drafts": [
                    {"draft": words, "halves": count} for words, count in often.most_common()
                ],
                "tokens_per_step": outcome.tokens_per_step,
                "tokens_per_s": outcome.tokens_per_s,
                "tokens_per_s_interval": list(outcome.interval),
            }
        )
    return {
        "method": method,
        "model": model,
        "batch": compared.batch,
        "context": compared.context,
        "policies": policies,
        "best_published": compared.best.policy.name,
        "gain_ratio": compared.gain_ratio,
        "gain_interval": list(compared.gain_interval),
        "half_gain_ratio": compared.half_gain_ratio,
        "halves": len(compared.ours.drafts),
        "oracle": {
            "per_step_tokens_per_s": compared.step_oracle,
            "per_request_tokens_per_s": compared.request_oracle,
        },
    }


def _words(draft: HeldOutDraft) -> str:
    """What a step drafts, in a few words."""
    from traces.kinds.state_trees import StateTrees
    from traces.kinds.tree import Tree

    shape, stop = draft.shape, draft.stop
    if isinstance(shape, StateTrees):
        return str(DraftShape(kind="prompted", nodes=max(shape.sizes), stop=stop))
    if isinstance(shape, Tree):
        return str(given_tree(shape) if shape.draft_tokens else OFF)
    return str(chain(shape, stop) if isinstance(shape, int) else dynamic(shape, stop))
