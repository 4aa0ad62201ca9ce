"""The main job: from recorded traces to the configuration to run, with a schedule for engines.

Reads each trace, finds its method, costs it on the device asked about, and searches. Leaves out printing and
export (`app`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from costmodel.acceptance import Acceptance
from costmodel.method_library import load_method
from costmodel.model_library import load_model
from costmodel.optimizers.candidates import (
    CHAIN_LENGTHS,
    NGRAM_LENGTHS,
    TREE_SIZES,
    chain_candidates,
    tree_candidates,
)
from costmodel.optimizers.search import Choice, Contender, Limits, Optimum, search
from costmodel.scenario import Scenario, build_setting, method_of, with_match_rate
from hardware_profiles.errors import InputError, UnknownNameError
from traces.library import read_trace
from traces.schema import AcceptanceTrace
from traces.statistics import resample_counts

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
        method: slug of the method it recorded.
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
        scenario: the question, with the model resolved.
        sources: traces, in the order given.
        contenders: one per source.
        optimum: ranked choices and schedules.
    """

    scenario: Scenario
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


def recommend(
    scenario: Scenario,
    traces: Sequence[Path],
    *,
    batches: Sequence[int] = DEFAULT_BATCHES,
    contexts: Sequence[int] = DEFAULT_CONTEXTS,
    draft_tokens: Sequence[int] | None = None,
    tree_sizes: Sequence[int] = TREE_SIZES,
    limits: Limits | None = None,
    match_rate: float | None = None,
    drop_unfit: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Recommendation:
    """Search draft lengths, trees and batches over one or more recorded traces.

    Args:
        scenario: model (empty: the first trace's own), device, engine and so on; `method` applies where a
            trace does not name its own.
        traces: acceptance traces of level 1 or higher, one contender each.
        batches: batch sizes, increasing, >= 1.
        contexts: cached tokens per request, >= 0.
        draft_tokens: chain lengths to compare; None takes 1 to 8, and up to 16 for n-gram drafters.
        tree_sizes: draft tokens of the trees to build where a trace holds ranks; empty for none.
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
    sources = [_read(path, scenario, match_rate) for path in traces]
    model = scenario.model or sources[0].trace.provenance.model
    known = replace(scenario, model=model)
    sources = [replace(s, borrowed=is_borrowed(s.trace, model)) for s in sources]
    seeds = np.random.SeedSequence(seed).spawn(len(sources) + 1)
    contenders = []
    for index, source in enumerate(sources):
        generator = np.random.default_rng(seeds[index])
        if progress:
            progress(f"replaying {source.path.name}")
        setting = build_setting(_scenario(known, source))
        candidates = _candidates(source, draft_tokens, tree_sizes, generator, progress)
        contenders.append(Contender(method=source.method, setting=setting, candidates=candidates, trace=index))
    if progress:
        progress("searching")
    optimum = search(
        contenders, batches=batches, contexts=contexts, limits=limits, drop_unfit=drop_unfit,
        generator=np.random.default_rng(seeds[-1]),
    )  # fmt: skip
    return Recommendation(scenario=known, sources=sources, contenders=contenders, optimum=optimum)


def _read(path: Path, scenario: Scenario, match_rate: float | None) -> Source:
    trace = read_trace(path)
    trace.require(1, "searching configurations")
    named = trace.provenance.method
    method = method_of(named) if named else scenario.method
    if load_method(method).drafter == "none":
        raise InputError("the trace names no method; pass --method", file=path, key="method")
    return Source(path=path, trace=with_match_rate(trace, method, match_rate), method=method, borrowed=False)


def _scenario(scenario: Scenario, source: Source) -> Scenario:
    draft = scenario.draft if load_method(source.method).drafter == "draft_model" else None
    known = replace(scenario, method=source.method, draft=draft)
    parameters = source.trace.provenance.extra.get("parameters")
    told = parameters if isinstance(parameters, Mapping) else {}
    recorded = told.get("exit_layer", told.get("draft_layers"))  # layers that a draft pass runs
    if known.exit_layer is None and isinstance(recorded, int) and not source.borrowed:
        return replace(known, exit_layer=recorded)
    return known


def _candidates(
    source: Source,
    draft_tokens: Sequence[int] | None,
    tree_sizes: Sequence[int],
    generator: np.random.Generator,
    progress: Progress | None,
) -> list[Acceptance]:
    trace, method = source.trace, load_method(source.method)
    counts = resample_counts(trace.prompt_kinds, generator=generator, resamples=DRAWS).astype(np.float64)
    lengths = draft_tokens or (NGRAM_LENGTHS if method.drafter == "ngram" else CHAIN_LENGTHS)
    if trace.depth is not None:
        lengths = [k for k in lengths if k <= trace.depth] or [trace.depth]
    found = chain_candidates(trace, lengths, counts)
    if tree_sizes and trace.level >= 2 and "tree" in method.topologies and trace.requests >= 2:
        found += tree_candidates(trace, tree_sizes, counts, generator, progress=progress)
    return found


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
