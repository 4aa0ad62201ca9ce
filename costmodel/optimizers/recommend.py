"""Which configuration should be run, given recorded traces, and which schedule should an engine load?

Reads each trace, finds its method, costs it on the device asked about, and searches. Leaves out printing and
export (`app`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from costmodel.answers.estimate import Setting
from costmodel.answers.settings import build_setting, method_of, with_match_rate
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance, law_for
from costmodel.method import Stop
from costmodel.method_library import load_method
from costmodel.optimizers.candidates import (
    CHAIN_LENGTHS,
    NGRAM_LENGTHS,
    TREE_SIZES,
    chain_candidates,
    tree_candidates,
)
from costmodel.optimizers.dynamic_candidates import dynamic_candidates, stopped_candidates
from costmodel.optimizers.search import Choice, Contender, Limits, Optimum, search
from hardware_profiles.errors import InputError, UnknownNameError
from traces.kinds.acceptance import AcceptanceTrace
from traces.library import read_trace, trace_name
from traces.replay.statistics import resample_counts

DRAWS = 1000
DEFAULT_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
DEFAULT_CONTEXTS = (1024,)

Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One trace and what the recommendation needs to know of it.

    Args:
        path: file it was read from.
        trace: its content.
        method: slug of the method that it is asked about.
        borrowed: it was recorded on another target than the one asked about.
    """

    path: Path
    trace: AcceptanceTrace
    method: str
    borrowed: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Recommendation:
    """What to run.

    Args:
        question: what was asked, with the model resolved.
        sources: traces, in the order given.
        contenders: one per source.
        optimum: ranked choices and schedules.
    """

    question: DecodingConfiguration
    sources: Sequence[Source]
    contenders: Sequence[Contender]
    optimum: Optimum

    @property
    def winners(self) -> list[Choice]:
        """The fastest choice at every context and batch."""
        return [ranked[0] for ranked in self.optimum.ranked]

    def source(self, choice: Choice) -> Source:
        """The trace that a choice was measured on."""
        return self.sources[choice.contender.trace]

    def configuration(self, choice: Choice) -> DecodingConfiguration:
        """What to run, with where its numbers come from."""
        source = self.source(choice)
        recorded = source.trace.provenance.model or "an unnamed model"
        provenance: dict[str, str | float | int | None] = {
            "device": choice.contender.setting.device.name,
            "trace": source.path.name,
            "acceptance": f"borrowed from {recorded}" if source.borrowed else "recorded on this model",
            "tokens_per_step": round(choice.acceptance.tokens_per_step, 3),
            "speedup": round(float(choice.result.speedup), 3),
        }
        return replace(choice.configuration, provenance=provenance)

    def scheduled(self, choice: Choice) -> DecodingConfiguration | None:
        """The batch schedule of a choice's method at its context; None where no chain was compared."""
        alike = replace(choice.contender.configuration, context=choice.context)
        for found in self.optimum.schedules:
            given = found.configuration
            if replace(given, schedule=(), draft_tokens=0) == alike:
                return replace(given, provenance=self.configuration(choice).provenance)
        return None


def recommend(
    question: DecodingConfiguration,
    traces: Sequence[Path],
    *,
    batches: Sequence[int] = DEFAULT_BATCHES,
    contexts: Sequence[int] = DEFAULT_CONTEXTS,
    draft_tokens: Sequence[int] | None = None,
    tree_sizes: Sequence[int] = TREE_SIZES,
    stop: Stop | None = None,
    limits: Limits | None = None,
    match_rate: float | None = None,
    drop_unfit: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Recommendation:
    """Search draft lengths, trees and batches over one or more recorded traces.

    Example:
        >>> from costmodel.configuration import DeploymentNames
        >>> from traces.library import trace_file
        >>> question = DecodingConfiguration(deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm"))
        >>> recording = trace_file("smollm2-135m--prompt-lookup--greedy")
        >>> answer = recommend(question, [recording], batches=[1, 64], draft_tokens=[2, 8], tree_sizes=[])
        >>> [(best.batch, best.topology, best.configuration.draft_tokens) for best in answer.winners]
        [(1, 'chain', 8), (64, 'chain', 2)]

    Args:
        question: deployment (model empty: the first trace's own) and what is known of the drafter; `method` applies
            where a trace does not name its own, or names one with the same kind of drafter.
        traces: acceptance traces of level 1 or higher, one contender each.
        batches: batch sizes, increasing, >= 1.
        contexts: cached tokens per request, >= 0.
        draft_tokens: chain lengths to compare; None takes 1 to 8, and up to 16 for n-gram drafters.
        tree_sizes: draft tokens of the static trees to build where a trace holds ranks, and of dynamic ones where it
            holds expansions; empty for none.
        stop: a rule by which drafts may end early; compared beside those that it does not end.
        limits: latency limits.
        match_rate: share of steps with a proposal, for n-gram traces that did not record it.
        drop_unfit: leave out batches that do not fit memory instead of raising.
        seed: of the split, the bootstrap and the error draws.
        progress: called with a line of text as work goes on.

    Raises:
        InputError: bad values, or a trace of too low a level.
        InfeasibleError: nothing fits or meets the limits.
    """
    if not traces:
        raise InputError("at least one trace is needed", key="trace")
    _check_grid(batches, contexts)
    sources = [_read(path, question.method, match_rate) for path in traces]
    model = question.deployment.model or sources[0].trace.provenance.model
    known = replace(question, deployment=replace(question.deployment, model=model))
    sources = [replace(s, borrowed=is_borrowed(s.trace, model)) for s in sources]
    seeds = np.random.SeedSequence(seed).spawn(len(sources) + 1)
    contenders = []
    for index, source in enumerate(sources):
        generator = np.random.default_rng(seeds[index])
        if progress:
            progress(f"replaying {source.path.name}")
        asked = _question(known, source)
        setting = build_setting(asked)
        asked = replace(asked, exit_layers=setting.drafter.exit_layers)
        grid = None if stop is None else (stop, batches, contexts)
        candidates = _candidates(source, setting, draft_tokens, tree_sizes, grid, generator, progress)
        contenders.append(Contender(configuration=asked, setting=setting, candidates=candidates, trace=index))
    if progress:
        progress("searching")
    optimum = search(
        contenders, batches=batches, contexts=contexts, limits=limits, drop_unfit=drop_unfit,
        generator=np.random.default_rng(seeds[-1]),
    )  # fmt: skip
    return Recommendation(question=known, sources=sources, contenders=contenders, optimum=optimum)


def _read(path: Path, method: str, match_rate: float | None) -> Source:
    trace = read_trace(path)
    trace.require(1, "searching configurations")
    named = trace.provenance.method
    if named and not _drafts_alike(method, method_of(named)):
        method = method_of(named)
    if not load_method(method).drafts:
        raise InputError("the trace names no method; pass --method", file=path, key="method")
    return Source(path=path, trace=with_match_rate(trace, method, match_rate), method=method, borrowed=False)


def _drafts_alike(one: str, other: str) -> bool:
    """Whether two methods have the same kind of drafter, so that a recording of one tells of the other."""
    kinds = [tuple(stage.by for stage in load_method(slug).draft) for slug in (one, other)]
    return kinds[0] == kinds[1]


def _question(question: DecodingConfiguration, source: Source) -> DecodingConfiguration:
    draft = question.draft_model if load_method(source.method).drafts_with_weights else None
    recorded_on = trace_name(source.path)
    known = replace(
        question, method=source.method, draft_model=draft, trace=recorded_on, match_rate=source.trace.match_rate
    )
    parameters = source.trace.provenance.extra.get("parameters")
    stated = parameters if isinstance(parameters, Mapping) else {}
    recorded = stated.get("exit_layer", stated.get("draft_layers"))  # layers that a draft pass runs
    if known.exit_layers is None and isinstance(recorded, int) and not source.borrowed:
        return replace(known, exit_layers=recorded)
    return known


def _candidates(
    source: Source,
    setting: Setting,
    draft_tokens: Sequence[int] | None,
    tree_sizes: Sequence[int],
    stop_on: tuple[Stop, Sequence[int], Sequence[int]] | None,
    generator: np.random.Generator,
    progress: Progress | None,
) -> list[Acceptance]:
    trace, method = source.trace, load_method(source.method)
    counts = resample_counts(trace.prompt_kinds, generator=generator, resamples=DRAWS).astype(np.float64)
    lengths = draft_tokens or (NGRAM_LENGTHS if method.may_propose_nothing else CHAIN_LENGTHS)
    if trace.depth is not None:
        lengths = [k for k in lengths if k <= trace.depth] or [trace.depth]
    law = law_for(trace, method.verify.rule, lengths, at=method.verify.at)
    found = chain_candidates(trace, lengths, counts, law)
    trees = tree_sizes and trace.level >= 2 and trace.requests >= 2
    if trees and law.judges_trees and (method.drafts_trees or trace.expansions is not None):
        found += tree_candidates(trace, tree_sizes, counts, generator, law, progress=progress)
    found += dynamic_candidates(trace, tree_sizes, counts)
    if stop_on is None:
        return found
    stop, batches, contexts = stop_on
    most = [max(lengths)] if stop.rule == "goodput" else lengths  # that controller picks the shorter ones itself
    return found + stopped_candidates(setting, trace, most, stop, counts, law, batches=batches, contexts=contexts)


def is_borrowed(trace: AcceptanceTrace, model: str) -> bool:
    """Whether a trace was recorded on another model than the one named (or on an unnamed one)."""
    recorded = trace.provenance.model
    if not recorded:
        return True
    try:
        return load_model(recorded).name != load_model(model).name
    except UnknownNameError:
        return recorded != model


def _check_grid(batches: Sequence[int], contexts: Sequence[int]) -> None:
    if not batches or any(b < 1 for b in batches) or sorted(set(batches)) != list(batches):
        raise InputError("must be whole numbers >= 1, increasing", key="batch", value=list(batches))
    if not contexts or any(c < 0 for c in contexts):
        raise InputError("must be whole numbers >= 0", key="context", value=list(contexts))
