"""How does a written scenario become one that runs?

Reads the files that it names, draws arrivals and fills in what an engine does by default: scheduler
limits, cache blocks, draft costs. Leaves out checking keys (`simulator.scenario.file`), how drafts
are verified (`simulator.scenario.speculated`) and running (`simulator.engine`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from costmodel.answers.estimate import Setting
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from hardware_profiles.errors import InputError
from simulator.loop.block_options import BlockOptions, RecordedBlocks
from simulator.loop.dealing import Dealer
from simulator.loop.options import Disaggregation, Scenario, SchedulerOptions, SpeculationOptions
from simulator.loop.replica_sample import drawn_sample
from simulator.loop.step_time import StepTimer
from simulator.scenario.arrivals import sharing
from simulator.scenario.arriving import at_rate, requests_of, workload
from simulator.scenario.copies import Copies, check_lengths, copies_of
from simulator.scenario.defaults import block_options, feed_forward_of, scheduler_of
from simulator.scenario.encoders import encoding
from simulator.scenario.file import ScenarioFile
from simulator.scenario.prompt_workers import disaggregation_of
from simulator.scenario.refined import Refined, refined, refining
from simulator.scenario.sections import BlocksSection
from simulator.scenario.speculated import Speculated, speculated
from simulator.timing.engine_settings import EngineSettings, read_engine
from traces.importers.formats import read_requests_any
from traces.kinds.acceptance import RequestTrace

_PLAIN = "plain-decoding"
_DRAWN = 1 << 16  # requests of a sampled fleet from which mean lengths are taken

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
    "max_loras",
    "max_lora_rank",
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
        replicas = written.replicas or self.copies.schedulers
        router = written.router or ("reported-load" if self.copies.in_step else "round-robin")
        sample, places = None, None
        if written.sample_replicas is not None:
            everyone = requests_of(requests, self.source)
            dealer: Dealer = "random" if router == "random" else "round-robin"
            sample = drawn_sample(replicas, written.sample_replicas, everyone, seed, dealer)
            replicas, places = len(sample.chosen), sample.places
        arriving = workload(requests, self.source, np.random.default_rng(seed), places)
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
            replicas=replicas,
            router=router,
            report_s=written.report_s,
            in_step=self.copies.in_step,
            disaggregation=self.disaggregation,
            seed=seed,
            sample=sample,
        )

    def of_users(self, users: int, think_s: float = 0.0) -> Prepared:
        """The same service and lengths in a closed loop.

        Args:
            users: each with one request at a time.
            think_s: between an answer and the same user's next request, on average.
        """
        closed = {"arrivals": "closed", "users": users, "think_s": think_s, "rate_per_s": None}
        requests = self.written.requests.model_copy(update=closed)
        return replace(self, written=self.written.model_copy(update={"requests": requests}))

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
    # 1. names become records
    source = _recorded_requests(written)
    walked = refined(written)
    drafter = speculated(written) if walked is None else None
    engine = read_engine(written.profile.engine) if written.profile is not None else None
    copies = copies_of(written, engine)
    setting = None
    if engine is None or drafter is not None:
        setting = _setting(written, drafter, engine, walked)
    prompt_tokens, output_tokens = _mean_lengths(written, source)
    if setting is not None:
        setting = encoding(written, setting, prompt_tokens)
    # 2. what follows from them
    timer, timer_notes = _timer(written, setting, engine, copies)
    speculation, speculation_notes = None, tuple[str, ...]()
    if drafter is not None and setting is not None:
        speculation, speculation_notes = drafter.options(setting)
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
        notes=(
            *(() if walked is None else walked.notes),
            *(() if drafter is None else drafter.notes),
            *timer_notes,
            *speculation_notes,
            *_prefix_notes(written, source),
        ),
    )


def _recorded_requests(written: ScenarioFile) -> RequestTrace | None:
    """The file of requests that a scenario names; None: they are drawn."""
    if written.requests.file is None:
        return None
    source = read_requests_any(written.requests.file, written.requests.format)
    if not source.requests:
        raise InputError(
            "must hold at least one request", file=source.file, key="requests", value=0
        )
    return source


def _prefix_notes(written: ScenarioFile, source: RequestTrace | None) -> tuple[str, ...]:
    """What has to be said where a prefix cache is asked for and nothing tells what prompts share."""
    shares = written.deployment.shared_prefix_tokens or (
        source is not None and source.prefix_blocks is not None
    )
    if not written.scheduler.prefix_cache or shares:
        return ()
    whose = "drawn requests" if source is None else f"the requests of {source.file}"
    return (
        f"a prefix cache is asked for, and {whose} tell of no prefix: it finds nothing; sessions,"
        " block ids or deployment.shared_prefix_tokens tell what prompts share",
    )


def _timer(
    written: ScenarioFile, setting: Setting | None, engine: EngineSettings | None, copies: Copies
) -> tuple[StepTimer, tuple[str, ...]]:
    """What times iterations, and what has to be said about it."""
    if engine is not None and written.profile is not None:
        from simulator.timing.profile_timer import ProfileTimer

        timer = ProfileTimer.from_files(
            written.profile.prefix, engine, overhead_s=written.profile.overhead_s
        )
        if setting is None:
            return timer, ()
        return timer, ("draft passes are timed by the cost model, the target's by the profile",)
    assert setting is not None
    notes: tuple[str, ...] = ()
    if written.feed_forward is not None and written.disaggregation is None:
        notes = (
            "prompts take the time of the whole model on one group of the attention side's devices",
        )
    return _cost_timer(written, setting, copies), notes


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


def _setting(
    written: ScenarioFile,
    drafter: Speculated | None,
    engine: EngineSettings | None,
    walked: Refined | None,
) -> Setting:
    """Target, drafter, device and engine that the cost model times; a profile's engine says what
    the scenario leaves open.
    """
    method = _PLAIN
    if walked is not None:
        method = walked.blocks.method.slug
    elif drafter is not None:
        method = drafter.method.slug
    d, s = written.deployment, written.speculation
    draft_fields: dict[str, Any] = {}
    if s is not None:
        draft_fields = {
            "draft_model": s.draft,
            "exit_layers": s.exit_layer,
            "draft_name": s.draft_name,
            "draft_passes": s.draft_passes,
            "draft_bytes": s.draft_bytes,
        }
    return build_setting(
        DecodingConfiguration(
            method=method,
            refine=walked.policy if walked is not None else None,
            canvas_tokens=walked.blocks.canvas_tokens if walked is not None else None,
            **draft_fields,
            deployment=DeploymentNames(
                model=d.model or (engine.model if engine is not None else ""),
                tensor_parallel=d.tensor_parallel if engine is None else engine.tensor_parallel,
                **{name: getattr(d, name) for name in _OF_DEPLOYMENT},
            ),
        )
    )


def _mean_lengths(written: ScenarioFile, source: RequestTrace | None) -> tuple[float, float]:
    """Mean tokens of prompts and of outputs."""
    requests = written.requests
    if written.sample_replicas is not None and source is None:
        # those of all replicas may be too many to draw
        requests = requests.model_copy(update={"count": min(requests.count or 1, _DRAWN)})
    taken = source if source is not None else workload(requests, None, np.random.default_rng(0))
    return float(taken.prompt_tokens.mean()), float(taken.output_tokens.mean())
