"""Which copies of attention and dense layers does a deployment have, and what have they to do with
each other?

Copies that hold experts of each other are ranks of one engine, which begin every iteration
together; copies of a whole model are replicas like any others. Each has a scheduler, requests and a
cache of its own. Leaves out copies within a pipeline or a context group, or behind workers for
prompts, which are simulated as one scheduler over all of them.
"""

from __future__ import annotations

from typing import NamedTuple

from costmodel.answers.estimate import Setting
from costmodel.answers.positions import require_positions
from costmodel.parallel.plan import ParallelPlan
from hardware_profiles.errors import InputError
from simulator.loop.request import Workload
from simulator.scenario.file import ScenarioFile
from simulator.timing.engine_settings import EngineSettings


class Copies(NamedTuple):
    """What a scenario is simulated with.

    Args:
        schedulers: of the deployment.
        in_step: whether they begin every iteration together.
        plan: how the target is spread over all devices of ranks in step, or over those of one copy;
            None: one tensor-parallel group.
    """

    schedulers: int = 1
    in_step: bool = False
    plan: ParallelPlan | None = None

    @property
    def blocks_ratio(self) -> float:
        """Share of the plan's cache that one scheduler has."""
        return 1.0 / self.schedulers if self.in_step else 1.0


def copies_of(written: ScenarioFile, engine: EngineSettings | None) -> Copies:
    """The copies of a scenario's deployment, or of the engine whose profile times it.

    Args:
        written: the scenario.
        engine: of a profile; None without.

    Raises:
        InputError: replicas of an engine whose ranks are replicas already, or prompts apart from
            ranks in step.
    """
    dealt = _planned(written) if engine is None else Copies(engine.replicas, engine.in_step)
    if dealt.in_step:
        for key, stated in (
            ("replicas", written.replicas),
            ("disaggregation", written.disaggregation),
        ):
            if stated is not None and stated != dealt.schedulers:
                raise InputError(
                    "copies that hold experts of each other are one engine, without more", key=key
                )
    return dealt


def _planned(written: ScenarioFile) -> Copies:
    d = written.deployment
    if not d.is_planned:
        return Copies()
    plan = ParallelPlan(
        tensor=d.tensor_parallel,
        pipeline=d.pipeline_parallel,
        expert=d.expert_parallel,
        data=d.data_parallel,
        context=d.context_parallel,
    )
    behind = written.disaggregation is not None and written.disaggregation.prefill is not None
    if plan.data == 1 or plan.pipeline > 1 or plan.context > 1 or behind:
        return Copies(plan=plan)
    if plan.expert > 1:
        return Copies(plan.data, True, plan)
    return Copies(plan.data)


def check_lengths(
    workload: Workload, engine: EngineSettings | None, setting: Setting | None
) -> None:
    """Check that an engine and its model take all requests.

    Raises:
        InputError: a request that is longer than the engine's `max_model_len`, or than what the
            model has learned.
    """
    tokens = workload.prompt_tokens.astype("int64") + workload.output_tokens
    if setting is not None and tokens.size:
        require_positions(setting.target, float(tokens.max()), "requests")
    if engine is None or engine.longest_request is None:
        return
    if int(tokens.max()) > engine.longest_request:
        rule = f"a request has {int(tokens.max())} tokens, more than the engine takes"
        raise InputError(rule, key="max_model_len", value=engine.longest_request)
