"""`replay --held-out`: our choice beside published policies on requests that neither saw."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from app.answers.progress import counting
from app.answers.replay.rows import (
    HalvesOfDraft,
    HeldOutBatch,
    HeldOutPolicies,
    HeldOutPolicy,
    OracleSpeeds,
)
from app.questions.field import inputs_of
from app.questions.replay import ReplayQuestion
from app.questions.resolve.chosen_configuration import configuration_of
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration
from costmodel.draft_shape import OFF, DraftShape, chain, dynamic, given_tree
from costmodel.drafters.checkpoint import loads
from costmodel.optimizers.drafters.competing import competing
from costmodel.optimizers.drafters.sources import trace_source
from costmodel.optimizers.held_out.comparison import Outcome, PolicyComparison, compare_policies
from costmodel.optimizers.held_out.half import HeldOutDraft
from costmodel.optimizers.recommend import drafter_question
from hardware_profiles.errors import InputError
from traces.kinds.state_trees import StateTrees
from traces.kinds.tree import Tree
from traces.library import trace_file

DRAFT_OPTIONS = ("draft_tokens", "tree", "shape", "stop", "verifier")


def answer_held_out(question: ReplayQuestion) -> HeldOutPolicies:
    """Every policy on halves of a recording, at every batch.

    Raises:
        InputError: an option that says what is drafted, or as `held_out_batches`.
    """
    if stated := [name for name in DRAFT_OPTIONS if name in question.stated]:
        rule = (
            "compares policies that choose what to draft; leave out"
            f" --{stated[0].replace('_', '-')}"
        )
        raise InputError(rule, key="--held-out")
    file = trace_file(question.trace)
    options = {name: value for name, value in question.stated_values.items() if name != "trace"}
    rows = held_out_batches(
        file,
        configuration_of(None, options),
        question.batch,
        question.context,
        match_rate=question.match_rate,
        splits=question.splits,
        seed=question.seed,
        quiet=question.quiet or question.json,
    )
    return HeldOutPolicies(
        inputs=inputs_of(question, trace=str(file), model=rows[0].model), held_out=rows
    )


def held_out_batches(
    file: Path,
    configuration: DecodingConfiguration,
    batches: Sequence[int],
    context: int,
    *,
    splits: int,
    match_rate: float | None = None,
    seed: int = 0,
    quiet: bool = True,
) -> list[HeldOutBatch]:
    """Every policy on halves of a recording: one row per batch.

    Args:
        file: of the recording.
        configuration: target, device and engine, and the draft model of a recorded method that
            takes one; without a target, the recorded one.
        batches: requests that decode together.
        context: cached tokens per request.
        splits: times that the requests are halved.
        match_rate: share of steps with a proposal, where the recording does not tell.
        seed: of the splits.
        quiet: show no progress.

    Raises:
        InputError: a recording without positions, of one request, names that make no sense, or no
            split.
    """
    stated = configuration.method if configuration.method != "plain-decoding" else ""
    source = trace_source(file, stated, match_rate)
    if source.own_draft is not None:
        rule = "tells of one draft alone, and policies choose among several"
        raise InputError(rule, file=file, key="trace")
    model = configuration.deployment.model or source.model
    placed = replace(configuration, deployment=replace(configuration.deployment, model=model))
    if placed.draft_model is not None and not loads(source.method, placed.draft_model):
        placed = replace(placed, draft_model=None)
    (source,) = competing(placed, [source])
    with counting(quiet) as report:
        comparisons = compare_policies(
            source,
            build_setting(drafter_question(placed, source)),
            batches=batches,
            context=context,
            splits=splits,
            seed=seed,
            progress=report,
        )
    return [_batch(comparison, source.method, model) for comparison in comparisons]


def _batch(comparison: PolicyComparison, method: str, model: str) -> HeldOutBatch:
    """One batch: what each policy does, ours first, and by how much ours is faster."""
    ours = [comparison.ours, *([comparison.schedule] if comparison.schedule else [])]
    outcomes = (*ours, *comparison.published)
    return HeldOutBatch(
        method=method,
        model=model,
        batch=comparison.batch,
        context=comparison.context,
        policies=[_policy(outcome, comparison) for outcome in outcomes],
        best_published=comparison.best.policy.name,
        gain_ratio=comparison.gain_ratio,
        gain_interval=comparison.gain_interval,
        half_gain_ratio=comparison.half_gain_ratio,
        halves=len(comparison.ours.drafts),
        oracle=OracleSpeeds(
            per_step_tokens_per_s=comparison.step_oracle,
            per_request_tokens_per_s=comparison.request_oracle,
        ),
    )


def _policy(outcome: Outcome, comparison: PolicyComparison) -> HeldOutPolicy:
    runs = Counter(_draft_words(draft) for draft in outcome.drafts)
    gain = None if outcome is comparison.schedule else comparison.schedule_gain(outcome)
    return HeldOutPolicy(
        batch=comparison.batch,
        policy=outcome.policy.name,
        source=outcome.policy.source or None,
        drafts=[HalvesOfDraft(draft=draft, halves=count) for draft, count in runs.most_common()],
        tokens_per_step=outcome.tokens_per_step,
        tokens_per_s=outcome.tokens_per_s,
        tokens_per_s_interval=outcome.interval,
        schedule_gain_ratio=None if gain is None else gain[0],
        schedule_gain_interval=None if gain is None else gain[1],
    )


def _draft_words(draft: HeldOutDraft) -> str:
    """What a step drafts, as `--shape` reads it."""
    shape, stop = draft.shape, draft.stop
    if isinstance(shape, StateTrees):
        return str(DraftShape(kind="prompted", nodes=max(shape.sizes), stop=stop))
    if isinstance(shape, Tree):
        return str(given_tree(shape) if shape.draft_tokens else OFF)
    return str(chain(shape, stop) if isinstance(shape, int) else dynamic(shape, stop))
