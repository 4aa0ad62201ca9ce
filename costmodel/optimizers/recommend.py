"""Which configuration should be run, given the drafters that compete, and which schedule should an
engine load?

Takes recordings, engines' counters, stated and published acceptance together, costs each drafter on
the device asked about, and searches. Leaves out printing and export (`app`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np

from costmodel.answers.estimate import Estimate, estimate
from costmodel.answers.positions import require_positions
from costmodel.answers.settings import build_setting
from costmodel.answers.workload import Limits
from costmodel.configuration import DecodingConfiguration
from costmodel.draft_shape import OFF, DraftShape
from costmodel.laws.acceptance import Acceptance
from costmodel.laws.refined_method import method_policy
from costmodel.method import Stop
from costmodel.method_library import load_method
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.candidates.asked_shapes import shape_acceptances
from costmodel.optimizers.candidates.policy_candidates import policy_contenders
from costmodel.optimizers.candidates.policy_grid import policy_grid
from costmodel.optimizers.candidates.usual_shapes import TREE_SIZES, usual_shapes
from costmodel.optimizers.drafters.competing import carried, competing
from costmodel.optimizers.drafters.context_parts import source_parts
from costmodel.optimizers.drafters.named_drafters import names_of
from costmodel.optimizers.drafters.sources import Source, trace_source
from costmodel.optimizers.search import Choice, Optimum, search
from hardware_profiles.errors import InputError
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.played import Unplayed

DEFAULT_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
DEFAULT_CONTEXTS = (1024,)

Progress = Callable[[str], None]


class DraftAxes(TypedDict, total=False):
    """What may be drafted, or committed of masked blocks; what is left out is open.

    Args:
        draft_tokens: chain lengths to compare, or sizes of trees that carry prompt tokens; None
            takes 1 to 8, and up to 16 for n-gram drafters, and of numbers that hold up to some
            length no longer ones; trees up to 256.
        tree_sizes: draft tokens of the static trees to build where a trace holds ranks, and of
            dynamic ones where it holds expansions; empty for none.
        stop: a rule by which drafts may end early; compared beside those that it does not end.
        shapes: what is compared instead of all that, beside plain decoding.
        policies: of masked blocks, to compare on recorded prompts; None: the usual ones.
        against: model whose plain decoding masked blocks are compared with; empty: their own.
        match_rate: share of steps with a proposal, for n-gram traces that did not record it.
        by_context: replay recordings near every context alone.
    """

    draft_tokens: Sequence[int] | None
    tree_sizes: Sequence[int]
    stop: Stop | None
    shapes: Sequence[DraftShape] | None
    policies: Sequence[RefinePolicy] | None
    against: str
    match_rate: float | None
    by_context: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedDrafters:
    """What competes, before a batch is asked about.

    Args:
        question: the configuration, with the model resolved.
        sources: drafters and where their acceptance is known from, in the order given.
        contenders: one per source; of masked blocks one per rule, block and cache.
        unplayed: policies of masked blocks that cannot be answered for.
    """

    question: DecodingConfiguration
    sources: Sequence[Source]
    contenders: Sequence[Contender]
    unplayed: Sequence[Unplayed] = ()

    @property
    def names(self) -> list[str]:
        """What each drafter is called, one name per source."""
        return names_of(self.sources)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recommendation(ComparedDrafters):
    """What to run: what competed, searched over batches and contexts.

    Args:
        optimum: ranked choices and schedules.
    """

    optimum: Optimum

    @property
    def winners(self) -> list[Choice]:
        """The fastest choice at every context and batch."""
        return [ranked[0] for ranked in self.optimum.ranked]

    def source(self, choice: Choice) -> Source:
        """Where the acceptance of a choice is known from."""
        return self.sources[choice.contender.source]

    def configuration(self, choice: Choice) -> DecodingConfiguration:
        """What to run, with where its numbers come from."""
        provenance = self._origin(choice, choice.acceptance, choice.result)
        return replace(choice.configuration, provenance=provenance)

    def scheduled(self, choice: Choice) -> DecodingConfiguration | None:
        """The batch schedule of a choice's method at its context; None where no chain was
        compared.
        """
        alike = replace(choice.contender.configuration, context=choice.context)
        for schedule in self.optimum.schedules:
            configuration = schedule.configuration
            if replace(configuration, schedule=(), draft_tokens=0) == alike:
                # the schedule may draft another length at this batch than the choice does
                drafted = configuration.draft_tokens_at(choice.batch)
                chain = next(
                    candidate
                    for candidate in choice.contender.candidates
                    if candidate.topology in ("off", "chain")
                    and candidate.lengths is None
                    and candidate.draft_tokens == drafted
                )
                result = estimate(
                    choice.contender.setting, chain, batch=choice.batch, context=choice.context
                )
                return replace(configuration, provenance=self._origin(choice, chain, result))
        return None

    def _origin(
        self, choice: Choice, drafted: Acceptance, result: Estimate
    ) -> dict[str, str | float | int | None]:
        """Where a choice's numbers come from, and what is expected of a draft at its batch."""
        source, setting = self.source(choice), choice.contender.setting
        name = setting.device.name
        origin: dict[str, str | float | int | None] = {
            "device": f"{setting.devices} x {name}" if setting.devices > 1 else name,
            **({"trace": source.path.name} if source.path is not None else {}),
            "acceptance": source.label,
            "batch": choice.batch,
            "tokens_per_step": round(drafted.tokens_per_step, 3),
            "speedup": round(float(result.speedup), 3),
        }
        if drafted.agreement is not None:
            origin["agreement"] = drafted.agreement
        return origin


def recommend(
    question: DecodingConfiguration,
    drafters: Sequence[Source | Path],
    *,
    batches: Sequence[int] = DEFAULT_BATCHES,
    contexts: Sequence[int] = DEFAULT_CONTEXTS,
    limits: Limits | None = None,
    floor: float | None = None,
    drop_unfit: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
    **axes: Unpack[DraftAxes],
) -> Recommendation:
    """Search draft lengths, trees and batches over one or more drafters.

    Example:
        >>> from costmodel.configuration import DeploymentNames
        >>> from traces.library import trace_file
        >>> question = DecodingConfiguration(deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm"))
        >>> recording = trace_file("smollm2-135m--prompt-lookup--greedy")
        >>> answer = recommend(question, [recording], batches=[1, 64], draft_tokens=[2, 8], tree_sizes=[])
        >>> [(best.batch, best.topology, best.configuration.draft_tokens) for best in answer.winners]
        [(1, 'chain', 8), (64, 'chain', 2)]

    Args:
        question: deployment (model empty: that of the first trace) and what is known of the
            drafter; `method` applies where a trace does not name its own, or names one with the
            same kind of drafter.
        drafters: one contender each: a source, or the path of a trace.
        batches: batch sizes, increasing, >= 1.
        contexts: cached tokens per request, >= 0.
        limits: latency limits.
        floor: least agreement of such a policy that is chosen, 0 to 1; None: any is, and plain
            decoding too.
        drop_unfit: leave out batches that do not fit memory instead of raising.
        seed: of the split, the bootstrap and the error draws.
        progress: called with a line of text as work goes on.
        axes: what may be drafted.

    Raises:
        InputError: bad values, a method that a trace contradicts, no model to ask about, or a
            context beyond the positions that it has learned.
        NothingAllowedError: nothing fits or meets the limits, at any batch and context.
    """
    _check_asked(batches, contexts, floor)
    compared = compare(
        question, drafters, grid=(batches, contexts), seed=seed, progress=progress, **axes
    )
    return searched(
        compared,
        batches=batches,
        contexts=contexts,
        limits=limits,
        floor=floor,
        drop_unfit=drop_unfit,
        seed=seed,
        progress=progress,
    )


def searched(
    compared: ComparedDrafters,
    *,
    batches: Sequence[int],
    contexts: Sequence[int],
    limits: Limits | None = None,
    floor: float | None = None,
    drop_unfit: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Recommendation:
    """What is best of drafters that were compared; arguments and errors are those of `recommend`.

    Args:
        compared: by `compare`, for these batches and contexts.
        batches: as for `recommend`.
        contexts: as for `recommend`.
        limits: as for `recommend`.
        floor: as for `recommend`.
        drop_unfit: as for `recommend`.
        seed: as for `recommend`.
        progress: as for `recommend`.

    Raises:
        InputError: bad values, or a context beyond the positions that the model has learned.
        NothingAllowedError: nothing fits or meets the limits, at any batch and context.
    """
    _check_asked(batches, contexts, floor)
    require_positions(compared.contenders[0].setting.target, max(contexts))
    if progress:
        progress("searching")
    optimum = search(
        compared.contenders,
        batches=batches,
        contexts=contexts,
        limits=limits,
        floor=floor,
        drop_unfit=drop_unfit,
        seed=seed,
    )
    return Recommendation(
        question=compared.question,
        sources=compared.sources,
        contenders=compared.contenders,
        unplayed=compared.unplayed,
        optimum=optimum,
    )


def compare(
    question: DecodingConfiguration,
    drafters: Sequence[Source | Path],
    *,
    grid: tuple[Sequence[int], Sequence[int]] = ((), ()),
    seed: int = 0,
    progress: Progress | None = None,
    **axes: Unpack[DraftAxes],
) -> ComparedDrafters:
    """Replay every drafter and cost it where it is asked about; what is best of it, a search says.

    Args:
        question: as for `recommend`.
        drafters: as for `recommend`.
        grid: batches and contexts whose costs a stop rule may weigh.
        seed: as for `recommend`.
        progress: as for `recommend`.
        axes: as for `recommend`.

    Raises:
        InputError: bad values, a method that a trace contradicts, no model to ask about, or no
            policy that recorded prompts can answer for.
    """
    resolved, sources = _on_one_model(question, drafters, axes.get("match_rate"))
    contenders: list[Contender] = []
    policies, unplayed = _recorded_policies(sources, axes.get("policies"))
    stated = axes.get("shapes")
    for index, source in enumerate(sources):
        generator = np.random.default_rng(
            seed
        )  # the draws of a drafter do not depend on its rivals
        if progress:
            progress(
                f"replaying {source.reference}" if source.positions else f"costing {source.method}"
            )
        configuration = drafter_question(resolved, source)
        if source.prompts is not None:
            mine = [policy for policy in policies if policy.cache == source.prompts.cache]
            refining, unable = policy_contenders(
                configuration,
                source.prompts,
                mine,
                source=index,
                seed=seed,
                against=axes.get("against", ""),
            )
            contenders += refining
            unplayed += unable
            continue
        setting = build_setting(configuration)
        configuration = replace(configuration, exit_layers=setting.drafter.exit_layers)
        compared = (
            [OFF, *(shape for shape in stated if shape.drafts)]
            if stated
            else usual_shapes(
                source,
                draft_tokens=axes.get("draft_tokens"),
                tree_sizes=axes.get("tree_sizes", TREE_SIZES),
                stop=axes.get("stop"),
            )
        )
        parts = source_parts(source, grid[1]) if axes.get("by_context") else [(None, source)]
        for contexts, part in parts:
            candidates = shape_acceptances(
                part,
                compared,
                generator=generator,
                weighed=(setting if grid[0] else None, grid[0], contexts or grid[1]),
                progress=progress,
            )
            contenders.append(
                Contender(
                    configuration=configuration,
                    setting=setting,
                    candidates=candidates,
                    source=index,
                    contexts=contexts,
                )
            )
    if not contenders:
        raise InputError(unplayed[0].reason)
    return ComparedDrafters(
        question=resolved, sources=sources, contenders=contenders, unplayed=unplayed
    )


def _recorded_policies(
    sources: Sequence[Source], stated: Sequence[RefinePolicy] | None
) -> tuple[list[RefinePolicy], list[Unplayed]]:
    """The policies that recorded prompts may answer for, and those whose cache was not recorded."""
    recorded = {
        source.prompts.cache: source.prompts for source in sources if source.prompts is not None
    }
    if not recorded:
        return [], []
    if stated is not None and not stated:
        raise InputError("must be one policy at least", key="commit")
    if stated is None:
        own = method_policy(load_method(sources[0].method))
        stated = policy_grid(own, {cache: prompts.anchors for cache, prompts in recorded.items()})
    caches = ", ".join(recorded)
    unplayed = [
        Unplayed(
            policy=policy,
            reason=f"cache: no trace was recorded with this cache; recorded: {caches}, got"
            f" {policy.cache!r}",
        )
        for policy in stated
        if policy.cache not in recorded
    ]
    return [policy for policy in stated if policy.cache in recorded], unplayed


def _on_one_model(
    question: DecodingConfiguration, drafters: Sequence[Source | Path], match_rate: float | None
) -> tuple[DecodingConfiguration, list[Source]]:
    """The question with its model resolved, and what is known of each drafter on that model."""
    if not drafters:
        raise InputError("at least one trace or stated acceptance is needed", key="drafter")
    named = question.method if load_method(question.method).drafts else ""
    sources = [
        drafter if isinstance(drafter, Source) else trace_source(drafter, named, match_rate)
        for drafter in drafters
    ]
    model = question.deployment.model or next((s.model for s in sources if s.trace is not None), "")
    if not model:
        raise InputError("must be named: no trace says on which model it was recorded", key="model")
    resolved = replace(question, deployment=replace(question.deployment, model=model))
    return resolved, competing(resolved, sources)


def drafter_question(question: DecodingConfiguration, source: Source) -> DecodingConfiguration:
    """The question about one drafter, which brings its draft model, or what was described in its
    place.

    Args:
        question: deployment, and the exit of a target that drafts itself.
        source: the drafter as it competes (`competing`).
    """
    resolved = replace(question, **carried(source))
    recorded = source.trained_layers
    if resolved.exit_layers is None and recorded is not None and not source.borrowed:
        return replace(resolved, exit_layers=recorded)
    return resolved


def _check_asked(batches: Sequence[int], contexts: Sequence[int], floor: float | None) -> None:
    if floor is not None and not 0.0 <= floor <= 1.0:
        raise InputError("must lie in [0, 1]", key="quality_floor", value=floor)
    if not batches or any(b < 1 for b in batches) or sorted(set(batches)) != list(batches):
        raise InputError("must be whole numbers >= 1, increasing", key="batch", value=list(batches))
    if not contexts or any(c < 0 for c in contexts):
        raise InputError("must be whole numbers >= 0", key="context", value=list(contexts))
