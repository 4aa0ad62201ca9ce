"""How does a written scenario become one that runs?

Reads the files that it names, draws arrivals and fills in what an engine does by default: scheduler
limits, cache blocks, draft costs. Leaves out checking keys (`simulator.scenario.file`) and running
(`simulator.engine`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from costmodel.answers.estimate import Setting
from costmodel.answers.settings import build_setting, method_of
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import MATCHING, drawn_ranks, drawn_recording, law_for
from costmodel.laws.claims import step_rates
from costmodel.laws.controllers import EMA_WEIGHT
from costmodel.method import Batch, Method
from costmodel.method_library import load_method
from hardware_profiles.errors import InputError
from simulator.loop.block_options import BlockOptions, RecordedBlocks
from simulator.loop.options import Disaggregation, Scenario, SchedulerOptions, SpeculationOptions
from simulator.loop.step_time import DraftTimer, StepTimer
from simulator.scenario.arrivals import sharing
from simulator.scenario.arriving import at_rate, workload
from simulator.scenario.copies import Copies, check_lengths, copies_of
from simulator.scenario.defaults import block_options, feed_forward_of, scheduler_of
from simulator.scenario.drafted import drafted
from simulator.scenario.encoders import encoding
from simulator.scenario.file import ScenarioFile
from simulator.scenario.prompt_workers import disaggregation_of
from simulator.scenario.refined import Refined, refined, refining
from simulator.scenario.sections import BlocksSection, SpeculationSection
from simulator.timing.engine_settings import EngineSettings, read_engine
from traces.importers.formats import read_requests_any
from traces.kinds.acceptance import AcceptanceTrace, RequestTrace
from traces.kinds.tree import Tree
from traces.library import trace_file

if TYPE_CHECKING:
    from costmodel.optimizers.drafters.sources import Source

_PLAIN = "plain-decoding"
_OTHERWISE = "speculative-decoding"
"""The method of a trace, or of stated acceptance, that names none."""

# fields of a scenario's deployment that a setting takes as they are
_OF_DEPLOYMENT = (
    "device",
    "engine",
    "dtype",
    "kv_dtype",
    "draft_dtype",
    "overrides",
    "fidelity",
    "split_verify",
    "transforms",
    "shared_prefix_tokens",
    "host_weights_ratio",
    "cache_tokens",
)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Prepared:
    """Everything of a scenario that does not depend on the seed.

    Args:
        written: the scenario as written.
        source: requests to take or to put at other times; None: drawn.
        setting: what the cost model times; None with a profile and no speculation.
        engine: of a profile; None without.
        copies: of the deployment, and how each is spread.
        scheduler: of every replica.
        timer: of iterations.
        speculation: None: plain decoding.
        blocks: of a block decoder, drawn by the seed; None: no such decoder.
        refined: blocks of a confidence trace; None: there is none.
        disaggregation: None: every replica computes prompts and decodes.
        notes: what was assumed.
    """

    written: ScenarioFile
    source: RequestTrace | None
    setting: Setting | None
    engine: EngineSettings | None
    copies: Copies
    scheduler: SchedulerOptions
    timer: StepTimer
    speculation: SpeculationOptions | None
    blocks: BlocksSection | None
    refined: Refined | None
    disaggregation: Disaggregation | None
    notes: tuple[str, ...]

    @property
    def extends(self) -> bool:
        """Whether there can be more requests than were written: their arrivals are drawn."""
        return self.written.requests.arrivals != "recorded"

    def scenario(
        self,
        seed: int = 0,
        *,
        rate_per_s: float | None = None,
        count: int | None = None,
        **changes: Any,
    ) -> Scenario:
        """A scenario that runs.

        Args:
            seed: of arrivals and of every other draw.
            rate_per_s: mean requests per second in place of the written ones; recorded arrivals are
                sped up.
            count: requests in place of as many as are written.
            changes: fields of `SchedulerOptions` that differ.

        Raises:
            InputError: a rate for a closed loop, or requests that cannot arrive so.
        """
        written = self.written
        requests = written.requests
        if rate_per_s is not None:
            requests = at_rate(requests, rate_per_s, self.source)
        if count is not None:
            requests = requests.model_copy(update={"count": count})
        arriving = workload(requests, self.source, np.random.default_rng(seed))
        if written.deployment.shared_prefix_tokens:
            arriving = sharing(
                arriving, written.deployment.shared_prefix_tokens, self.scheduler.block_tokens
            )
        check_lengths(arriving, self.engine, self.setting)
        return Scenario(
            workload=arriving,
            scheduler=replace(self.scheduler, **changes),
            timer=self.timer,
            speculation=self.speculation,
            blocks=self._blocks(seed),
            replicas=written.replicas or self.copies.schedulers,
            router=written.router or ("reported-load" if self.copies.in_step else "round-robin"),
            in_step=self.copies.in_step,
            disaggregation=self.disaggregation,
            seed=seed,
        )

    def _blocks(self, seed: int) -> BlockOptions | RecordedBlocks | None:
        if self.refined is not None:
            return self.refined.blocks
        return None if self.blocks is None else block_options(self.blocks, seed)


def prepare(written: ScenarioFile) -> Prepared:
    """Read what a scenario names and fill in defaults.

    Args:
        written: see `simulator.scenario.file`.

    Raises:
        InputError: a file or name that does not exist, or parts that do not go together.
        InfeasibleError: the model leaves no room for a cache.
    """
    source = None
    if written.requests.file is not None:
        source = read_requests_any(written.requests.file, written.requests.format)
        if not source.requests:
            raise InputError(
                "must hold at least one request", file=source.file, key="requests", value=0
            )
    walked = refined(written)
    known = _known(written) if walked is None else None
    notes: list[str] = [] if walked is None else [*walked.notes]
    trace = None if known is None else _walked(written, known, notes)
    engine = read_engine(written.profile.engine) if written.profile is not None else None
    copies = copies_of(written, engine)
    decoder = (
        walked.blocks.method.slug
        if walked is not None
        else known.method
        if known is not None
        else _PLAIN
    )
    setting = (
        None if engine is not None and trace is None else _setting(written, decoder, engine, walked)
    )
    prompt_tokens, output_tokens = _mean_lengths(written, source)
    if setting is not None:
        setting = encoding(written, setting, prompt_tokens)
    if engine is not None and written.profile is not None:
        from simulator.timing.profile_timer import ProfileTimer

        timer: StepTimer = ProfileTimer.from_files(
            written.profile.prefix, engine, overhead_s=written.profile.overhead_s
        )
        if trace is not None:
            notes.append("draft passes are timed by the cost model, the target's by the profile")
    else:
        assert setting is not None
        timer = _cost_timer(written, setting, copies)
        if written.feed_forward is not None and written.disaggregation is None:
            notes.append(
                "prompts take the time of the whole model on one group of the attention side's"
                " devices"
            )
    speculation = None
    if trace is not None and known is not None and setting is not None:
        speculation, note = _speculation(written, trace, setting, known)
        notes += [text for text in (note, speculation.law.remark) if text]
        if known.asked_on(setting.target.name).borrowed:
            notes.append("acceptance borrowed: the trace was recorded on another model")
    mean_tokens = int(np.ceil(prompt_tokens + output_tokens))
    scheduler = refining(_scheduler(written, source, setting, engine, copies, mean_tokens), walked)
    return Prepared(
        written=written,
        source=source,
        setting=setting,
        engine=engine,
        copies=copies,
        scheduler=scheduler,
        timer=timer,
        speculation=speculation,
        blocks=written.blocks,
        refined=walked,
        disaggregation=disaggregation_of(
            written, setting, mean_tokens, copies=copies, scheduler=scheduler
        ),
        notes=tuple(notes),
    )


def _cost_timer(written: ScenarioFile, setting: Setting, copies: Copies) -> StepTimer:
    if copies.in_step and copies.plan is not None:
        from simulator.timing.rank_timer import rank_timer

        return rank_timer(setting, copies.plan)
    if written.feed_forward is None:
        from simulator.timing.cost_timer import CostModelTimer

        return CostModelTimer(setting, copies.plan)
    from simulator.timing.split_timer import SplitTimer

    apart = written.feed_forward
    other, link = feed_forward_of(apart, setting)
    return SplitTimer(
        setting, other, link, copies=apart.attention_groups, micro_batches=apart.micro_batches
    )


def _scheduler(
    written: ScenarioFile,
    source: RequestTrace | None,
    setting: Setting | None,
    engine: EngineSettings | None,
    copies: Copies,
    mean_tokens: int,
) -> SchedulerOptions:
    """The scheduler, which heeds priorities where requests have some, unless the scenario says
    otherwise.
    """
    options = scheduler_of(written, setting, engine, copies, mean_tokens)
    ranked = bool(written.requests.priorities) or (
        source is not None and source.priority is not None
    )
    return (
        options if written.scheduler.priorities is not None else replace(options, priorities=ranked)
    )


def _known(written: ScenarioFile) -> Source | None:
    """Where acceptance is known from; None for plain decoding."""
    s = written.speculation
    if s is None or not s.drafts:
        return None
    # what optimises is not needed to simulate, and would double the time until a plain scenario
    # starts
    from costmodel.optimizers.drafters.sources import length_source, rates_source, trace_source

    method = method_of(s.method) if s.method else ""
    if s.trace is not None:
        return trace_source(
            trace_file(s.trace),
            method,
            s.match_rate,
            lengths=[s.longest_draft],
            otherwise=_OTHERWISE,
            override=bool(method),
        )
    method = method or _OTHERWISE
    if s.acceptance is not None:
        return rates_source(
            method, s.acceptance, match_rate=s.match_rate, known_tokens=s.known_tokens
        )
    assert s.tokens_per_step is not None
    return length_source(method, s.tokens_per_step, [s.longest_draft], match_rate=s.match_rate)


def _walked(written: ScenarioFile, known: Source, notes: list[str]) -> AcceptanceTrace:
    """The recording that requests walk along: as it stands, or drawn from numbers, which `notes`
    says.
    """
    if known.positions is not None:
        return known.positions
    assert written.speculation is not None
    own = load_method(known.method).shape
    longest = written.speculation.longest_draft or (
        own.nodes if own.kind in ("chain", "window") else 0
    )
    if known.rates is None or not (longest or own.kind == "state_trees"):
        rule = "stated acceptance is simulated for chains; say how many draft tokens"
        raise InputError(
            rule, key="speculation.draft_tokens", value=written.speculation.draft_tokens
        )
    if own.kind == "state_trees":
        from costmodel.optimizers.candidates.state_candidates import known_vectors

        vectors, assumed = known_vectors(known, own.depth)
        notes.append(
            f"acceptance {known.reference}: ranks are drawn, no step depends on another; {assumed}"
        )
        return drawn_ranks(vectors, generator=np.random.default_rng(0))
    notes.append(
        f"acceptance {known.reference}: a recording is drawn, in which no step depends on another"
    )
    if remark := known.rates.remark_at(longest):
        notes.append(remark)
    rates = step_rates(load_method(known.method), known.rates, longest)
    return drawn_recording(rates, longest, generator=np.random.default_rng(0))


def _setting(
    written: ScenarioFile, method: str, engine: EngineSettings | None, walked: Refined | None
) -> Setting:
    d, s = written.deployment, written.speculation
    drafter: dict[str, Any] = (
        {} if s is None else {"draft_model": s.draft, "exit_layers": s.exit_layer}
    )
    drafter |= {
        name: getattr(s, name, None) for name in ("draft_name", "draft_passes", "draft_bytes")
    }
    return build_setting(
        DecodingConfiguration(
            method=method,
            refine=walked.policy if walked is not None else None,
            canvas_tokens=walked.blocks.canvas_tokens if walked is not None else None,
            **drafter,
            deployment=DeploymentNames(
                model=d.model or (engine.model if engine is not None else ""),
                tensor_parallel=d.tensor_parallel if engine is None else engine.tensor_parallel,
                **{name: getattr(d, name) for name in _OF_DEPLOYMENT},
            ),
        )
    )


def _speculation(
    written: ScenarioFile, trace: AcceptanceTrace, setting: Setting, known: Source
) -> tuple[SpeculationOptions, str]:
    from simulator.timing.cost_timer import CostModelDraft

    s = written.speculation
    assert s is not None
    method = load_method(known.method)
    if method.has_own_pace:
        rule = (
            "verifies no drafts by token; masked blocks need a confidence trace, or are stated as"
            " `blocks`; "
        )
        rule += "`rooftree predict` answers for the others"
        raise InputError(rule, key="speculation.method", value=method.slug)
    topology, stop, note = drafted(s, method, trace)
    draft: DraftTimer = CostModelDraft(setting)
    verify = method.verify
    law = MATCHING
    if known.positions is not None and isinstance(topology, int | Tree):
        law = law_for(trace, verify.rule, (topology,), at=verify.at)
    options = SpeculationOptions(
        topology=topology,
        trace=trace,
        law=law,
        draft=draft,
        schedule=s.schedule,
        stop=stop,
        ema_weight=stop.at if stop.rule in ("ema", "goodput") and stop.at else EMA_WEIGHT,
        batch=_batch(s, method, trace),
        group_requests=s.group_requests,
    )
    return options, note


def _mean_lengths(written: ScenarioFile, source: RequestTrace | None) -> tuple[float, float]:
    """Mean tokens of prompts and of outputs."""
    taken = (
        source if source is not None else workload(written.requests, None, np.random.default_rng(0))
    )
    return float(taken.prompt_tokens.mean()), float(taken.output_tokens.mean())


def _batch(s: SpeculationSection, method: Method, trace: AcceptanceTrace) -> Batch:
    """How requests share steps: as the named policy or the method's entry says, but for what is
    written.
    """
    named = load_method(s.overlap) if s.overlap is not None else method
    batch = replace(named.batch, **s.changed_overlap())
    if s.ragged is not None:
        batch = replace(batch, ragged=s.ragged)
    if trace.level < 3:
        batch = replace(
            batch, branch_at=1.0
        )  # how sure the drafter was is not recorded: every draft branches
    return batch
