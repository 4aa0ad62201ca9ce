"""Which simulations answer a question, and how are their results summarised?

Names the variants and loads to run, runs a prepared scenario once per case, load and seed, and
gathers summaries with intervals over the seeds. Leaves out printing and drawing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from app.answers.simulations.cases import LoadPoint, SimulationCase
from costmodel.passes.measured import add_results
from hardware_profiles.errors import UnknownNameError
from real_runs.campaigns.results import offer_measured_passes
from simulator.engine import simulate
from simulator.loop.options import Scenario
from simulator.results.metrics import SimulationResult
from simulator.results.resources import Resources, resources
from simulator.results.sampled import fleet_summary
from simulator.results.steady import SteadyWindow, steady_summary, steady_window
from simulator.scenario.build import Prepared, prepare
from simulator.scenario.file import ScenarioFile
from traces.storage.parquet_files import write_parquet

COVERAGE = 0.8
VARIANTS: Mapping[str, Mapping[str, float]] = {
    "chunked": {"chunked_prefill": True, "prefill_first": False},
    "prefill-first": {"chunked_prefill": False, "prefill_first": True},
    "whole-prompts": {"chunked_prefill": False, "prefill_first": False},
    "no-prefix-cache": {"prefix_cache": False},
    "reserve-output": {"reserve_ratio": 1.0},
    "autoregressive": {},
}
AUTOREGRESSIVE = "autoregressive"
"""The variant whose scheduler is the same: one token a pass, without drafts or masked blocks."""
Variant = tuple[str, Mapping[str, Any]]
Report = Callable[[str, int, int], None]


def variants_of(names: list[str] | None) -> list[Variant]:
    """What `--compare` adds to the scenario as it stands.

    Raises:
        UnknownNameError: no such variant.
    """
    for name in names or ():
        if name not in VARIANTS:
            raise UnknownNameError("variant", name, VARIANTS, key="--compare")
    unchanged: Variant = ("as asked", {})
    return [unchanged, *((name, VARIANTS[name]) for name in dict.fromkeys(names or ()))]


def prepared_of(written: ScenarioFile) -> Prepared:
    """A scenario prepared, with the measured passes that it asks for.

    Args:
        written: see `simulator.scenario.file`.
    """
    if written.deployment.fidelity == "measured":
        offer_measured_passes()
    if written.deployment.measured_passes is not None:
        add_results(Path(written.deployment.measured_passes))
    return prepare(written)


def run_cases(
    prepared: Prepared, variants: Sequence[Variant], seed: int, report: Report
) -> list[SimulationCase]:
    """The scenario and its variants, all on the same requests.

    Args:
        prepared: scenario.
        variants: name, and the scheduler's options that differ.
        seed: of all draws.
        report: called with the case, and how many requests of how many have ended.
    """
    cases = []
    for name, changes in variants:
        own = autoregressive(prepared) if name == AUTOREGRESSIVE else prepared
        scenario = with_whole_prompts(own.scenario(seed, **changes), changes)
        result = simulate(scenario, progress=_progress(report, name))
        cases.append(SimulationCase(name=name, result=result, metrics=summary(own, result)))
    return cases


def autoregressive(prepared: Prepared) -> Prepared:
    """The same requests on the same engines, decoded one token a pass."""
    return prepare(prepared.written.model_copy(update={"speculation": None, "blocks": None}))


def run_loads(
    prepared: Prepared,
    variants: Sequence[Variant],
    rates: Sequence[float],
    seed: int,
    report: Report,
) -> list[LoadPoint]:
    """Every case at every load.

    Args:
        prepared: scenario.
        variants: names and changed options, as in `run_cases`.
        rates: mean requests per second.
        seed: of all draws.
        report: called as in `run_cases`.
    """
    points = []
    plain = (
        autoregressive(prepared)
        if rates and any(name == AUTOREGRESSIVE for name, _ in variants)
        else prepared
    )
    for rate in rates:
        for name, changes in variants:
            own = plain if name == AUTOREGRESSIVE else prepared
            scenario = with_whole_prompts(own.scenario(seed, rate_per_s=rate, **changes), changes)
            result = simulate(scenario, progress=_progress(report, f"{name} at {rate:g}/s"))
            points.append(LoadPoint(name=name, rate_per_s=rate, metrics=summary(own, result)))
    return points


def with_whole_prompts(scenario: Scenario, changes: Mapping[str, Any]) -> Scenario:
    """The scenario with a token budget that its longest prompt fits in, where a variant no longer
    splits prompts.
    """
    longest = int(scenario.workload.prompt_tokens.max())
    if changes.get("chunked_prefill", True) or scenario.scheduler.token_budget >= longest:
        return scenario
    return replace(scenario, scheduler=replace(scenario.scheduler, token_budget=longest))


def summary(prepared: Prepared, result: SimulationResult) -> dict[str, Any]:
    """What users see in the steady part of a result under the scenario's limits, and what devices
    did in all of it; of a sample of replicas that of their fleet, with intervals.

    Their use is None with a measured profile, where a plan spreads the model or feed-forward layers
    are disaggregated, whose parts differ, and for decoders of blocks, whose passes compute more
    tokens than they count.
    """
    window = steady_window(result, prepared.written.slo.limits)
    if result.sample is not None:
        return fleet_summary(result, lambda own: _own_summary(prepared, own, window))
    return _own_summary(prepared, result, window)


def _own_summary(
    prepared: Prepared, result: SimulationResult, window: SteadyWindow
) -> dict[str, Any]:
    """What the requests of a result saw, and what the devices of its replicas did."""
    metrics = steady_summary(result, prepared.written.slo.limits, window)
    has_resources = (
        prepared.setting is not None and prepared.engine is None and prepared.copies.plan is None
    )
    has_resources = (
        has_resources
        and prepared.written.feed_forward is None
        and prepared.blocks is None
        and prepared.refined is None
    )
    used = (
        resources(result, prepared.setting)
        if has_resources and prepared.setting is not None
        else None
    )
    return metrics | {
        field.name: None if used is None else getattr(used, field.name)
        for field in fields(Resources)
    }


def over_seeds(
    prepared: Prepared, first: Mapping[str, Any], seeds: Sequence[int], report: Report
) -> dict[str, Any] | None:
    """80 % intervals of every number of a summary over seeds.

    Args:
        prepared: scenario.
        first: summary of the first seed.
        seeds: all of them, the first included.
        report: called as in `run_cases`.

    Returns:
        The summary's shape with [lo, hi] in place of numbers; None for a single seed. With n seeds
        these are the
        quantiles 0.1 and 0.9 of n values: for few seeds close to their extremes.
    """
    if len(seeds) < 2:
        return None
    summaries = [first]
    for seed in seeds[1:]:
        result = simulate(prepared.scenario(seed), progress=_progress(report, f"seed {seed}"))
        summaries.append(summary(prepared, result))
    said = ("sampled", "window")  # words and counts of each run by itself
    own = [{key: run[key] for key in run if key not in said} for run in summaries]
    spread: dict[str, Any] = _intervals(own)
    return spread


def write_per_request(result: SimulationResult, path: Path) -> None:
    """A row per request, in the workload's order: lengths, times in seconds (null where there was
    none), its end.

    Raises:
        InputError: the place cannot be written.
    """
    columns: dict[str, Any] = {
        name: getattr(result, name)
        for name in (
            "request",
            "input_tokens",
            "output_tokens",
            "arrival_s",
            "scheduled_s",
            "first_token_s",
            "last_token_s",
        )
    }
    table = {name: pa.array(values, from_pandas=True) for name, values in columns.items()}
    table["state"] = pa.array(result.state.tolist(), pa.string())
    table["replica"] = pa.array(result.replica)
    if (sample := result.sample) is not None:  # both are counted in the whole fleet
        chosen = np.array(sample.chosen, dtype=np.int32)
        table |= {"request": pa.array(sample.places), "replica": pa.array(chosen[result.replica])}
    write_parquet(pa.table(table), path)


def _intervals(runs: Sequence[Any]) -> Any:
    """[lo, hi] of numbers that all summaries hold, in their shape; None where one of them has
    none.
    """
    first = runs[0]
    if isinstance(first, Mapping):
        return {
            key: _intervals([run[key] for run in runs])
            for key in first
            if all(key in run for run in runs)
        }
    if any(value is None for value in runs):
        return None
    low, high = np.quantile(
        np.asarray(runs, dtype=np.float64), [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2]
    )
    return [float(low), float(high)]


def _progress(report: Report, name: str) -> Callable[[int, int], None]:
    return lambda ended, all_of_them: report(name, ended, all_of_them)
