"""How do policies that set the draft length while serving compare on the same requests?

Runs engines' own policies, a schedule by batch, no drafting at all and two bounds over the same
arrivals and the same places of the recording, and puts them beside each other with intervals over
seeds. Leaves out how a policy chooses (`simulator.loop.decoders.lengths`) and printing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.answers.simulations.runs import COVERAGE, Report, autoregressive, summary
from costmodel.method import Stop
from costmodel.optimizers.schedule import Schedule, batch_schedule
from hardware_profiles.errors import InputError, UnknownNameError
from simulator.engine import simulate
from simulator.loop.length_policies import (
    LengthPolicy,
    long_run_verification,
    nightjar,
    sglang_throughput,
    sglang_tiers,
    tensorrt_gate,
    vllm_lengths,
    vllm_verification,
)
from simulator.loop.options import Scenario, SpeculationOptions
from simulator.loop.request import Workload
from simulator.results.metrics import SimulationResult
from simulator.scenario.build import Prepared
from traces.replay.walk import replay_chain

OURS, PLAIN, COST, EXPECTED, ORACLE = "ours", "plain", "cost", "expected", "oracle"
BOUNDS = (EXPECTED, ORACLE)
MEANINGS: Mapping[str, str] = {
    OURS: "the draft length by batch that is exported to engines",
    COST: "whole drafts, of which the batch verifies what pays beside the steps so far",
    "vllm": "adaptive verification: survival of draft tokens against passes timed at start-up",
    "sglang": "adaptive steps: mean of accepted tokens within the tiers that it ships",
    "sglang-throughput": (
        "adaptive steps by throughput: survival of draft tokens against timed passes"
    ),
    "tensorrt-llm": "the longest draft, until too small a share of 64 iterations is accepted",
    "nightjar": "a bandit by batch size over the seconds per token",
    "goodput": "one rate per token, seen lately, against the passes of the iteration",
    "fixed": "always the longest draft",
    PLAIN: "nothing is drafted, and no drafter takes room",
    EXPECTED: "bound: knows the recording's means, the batch and its contexts in every iteration",
    ORACLE: "bound: knows in every iteration what each request will accept",
}
_ALWAYS = (OURS, PLAIN)
_ONE_PASS = 1.5  # times a draft of one token, up to which a draft is taken to be made in one pass
_DENSE = 8  # batches up to which the schedule looks at each one
Score = Callable[[Mapping[str, Any]], float]


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyOutcome:
    """One policy over all seeds.

    Args:
        name: a key of `MEANINGS`.
        metrics: summary of every seed's simulation, and `score`, by which policies are ranked.
    """

    name: str
    metrics: tuple[Mapping[str, Any], ...]

    @property
    def scores(self) -> tuple[float, ...]:
        """Tokens a second of every seed, higher is better: see `score_of`."""
        return tuple(float(summary["score"]) for summary in self.metrics)


def policy_names(text: str) -> list[str]:
    """The policies that are asked for, ours and plain decoding always among them.

    Args:
        text: names with commas between, or `all`.

    Raises:
        UnknownNameError: no such policy.
    """
    chosen = list(MEANINGS) if text == "all" else [part.strip() for part in text.split(",")]
    for name in chosen:
        if name not in MEANINGS:
            raise UnknownNameError("policy", name, MEANINGS, key="--policies")
    return [name for name in MEANINGS if name in chosen or name in _ALWAYS]


def compared_policies(
    prepared: Prepared,
    names: Sequence[str],
    seeds: Sequence[int],
    report: Report,
    seen: Callable[[str, SimulationResult], None] = lambda name, result: None,
) -> tuple[list[PolicyOutcome], dict[str, Any]]:
    """Every policy on the same requests, seed by seed.

    Args:
        prepared: scenario with chains of at most K draft tokens along a recording.
        names: as `policy_names` gives them.
        seeds: of arrivals and places in the recording.
        report: called with the policy, and how many requests of how many have ended.
        seen: called with every policy and its simulation of the first seed.

    Returns:
        Policies in the order of `names`; and `schedule`, the ranges [first batch, last batch, K] of
        ours, `by`, what ranks them, and `notes`.

    Raises:
        InputError: a scenario that drafts no chains by a recording whose tokens are matched.
    """
    options = _chains(prepared)
    notes = []
    if COST in names and options.trace.level < 3:
        names = [name for name in names if name != COST]
        notes.append("cost: left out, as the recording does not hold how sure the drafter was")
    first = prepared.scenario(seeds[0])
    gains = chain_gains(options)
    schedule = options.schedule or own_schedule(first, gains).ranges
    at_once = _drafts_at_once(options)
    least_share = repaying_share(first)
    # what a drafter reads in steps without drafts it need not read before it drafts again
    follows = prepared.setting is not None and prepared.setting.engine.idle_drafter.follows
    speculations = {
        name: _speculation(name, options, schedule, gains, at_once, least_share, follows)
        for name in names
        if name != PLAIN
    }
    if not any(row[2] for row in schedule):
        speculations.pop(OURS)  # who never drafts loads no drafter
    plain = autoregressive(prepared)
    by_user = first.workload.users is None
    summaries: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for seed in seeds:
        for name in names:
            own = prepared if name in speculations else plain
            scenario = own.scenario(seed)
            if name in speculations:
                scenario = replace(scenario, speculation=speculations[name])
            result = simulate(scenario, progress=_progress(report, f"{name}, seed {seed}"))
            if seed == seeds[0]:
                seen(name, result)
            metrics = summary(own, result)
            summaries[name].append(metrics | {"score": score_of(metrics, by_user=by_user)})
    if "vllm" in names and not at_once:
        notes.append(
            "vllm: one length for the whole batch; tokens are chosen by the confidence of drafters"
            " that draft in one pass, where the recording holds it"
        )
    if "tensorrt-llm" in names:
        notes.append(
            f"tensorrt-llm: ends drafting where less than {least_share:.1%} of the draft tokens are"
            " accepted, at which the longest draft just pays with all requests decoding"
        )
    if OURS not in speculations:
        notes.append("ours: nothing is drafted at any batch, so no drafter is loaded")
    by = "1 / mean time per token" if by_user else "tokens per second"
    about = {"schedule": [list(row) for row in schedule], "by": by, "notes": notes}
    return [PolicyOutcome(name=name, metrics=tuple(summaries[name])) for name in names], about


def score_of(metrics: Mapping[str, Any], *, by_user: bool) -> float:
    """Tokens a second of the service, or of a mean user where requests arrive at a rate of their
    own.

    Args:
        metrics: summary of a simulation.
        by_user: the load is open, so that all policies deliver the same tokens a second in the end.
    """
    if not by_user:
        return float(metrics["tokens_per_s"] or 0.0)
    mean = metrics["tpot_s"]["mean"]
    return 1.0 / float(mean) if mean else 0.0


def chain_gains(options: SpeculationOptions) -> tuple[float, ...]:
    """Tokens that a step of 0, 1, ... K draft tokens emits in the mean along the recording.

    Args:
        options: chains.
    """
    trace = options.trace
    return (
        1.0,
        *(
            float(replay_chain(trace, k).tokens_per_step)
            for k in range(1, options.draft_tokens + 1)
        ),
    )


def own_schedule(scenario: Scenario, gains: Sequence[float]) -> Schedule:
    """The draft length by batch that loses least at the mean context of the requests.

    Args:
        scenario: its timers say what steps take.
        gains: tokens per step by draft length.
    """
    assert scenario.speculation is not None
    timer, draft = scenario.timer, scenario.speculation.draft
    context, most = mean_context_tokens(scenario.workload), _most_decoding(scenario)
    batches = batch_grid(most)
    rates = np.empty((len(batches), len(gains)))
    for i, batch in enumerate(batches):
        for k, tokens in enumerate(gains):
            seconds = timer(batch, 1.0 + k, batch * context, [])
            seconds += draft(batch, k, batch * context, 0) if draft is not None else 0.0
            rates[i, k] = batch * tokens / seconds
    # without a tolerance: what a change of the length costs is paid where it happens
    return batch_schedule(batches, range(len(gains)), rates, tolerance_ratio=0.0)


def repaying_share(scenario: Scenario) -> float:
    """Share of the longest draft's tokens that has to be accepted for it to pay where all requests
    decode, 0 to 1.

    Args:
        scenario: its timers say what steps take.
    """
    assert scenario.speculation is not None
    longest, draft = scenario.speculation.draft_tokens, scenario.speculation.draft
    batch = _most_decoding(scenario)
    context = batch * mean_context_tokens(scenario.workload)
    plain_s, drafted_s = (
        scenario.timer(batch, 1.0 + k, context, [])
        + (draft(batch, k, context, 0) if draft is not None else 0.0)
        for k in (0, longest)
    )
    return float(np.clip((drafted_s / plain_s - 1.0) / longest, 0.0, 1.0))


def _most_decoding(scenario: Scenario) -> int:
    """Most requests that decode together."""
    workload = scenario.workload
    return min(scenario.scheduler.max_requests, workload.users or workload.requests)


def mean_context_tokens(workload: Workload) -> float:
    """Cached tokens of a request in a mean decoding step.

    Args:
        workload: the requests.
    """
    outputs = workload.output_tokens.astype(np.float64)
    return float((outputs * (workload.prompt_tokens + outputs / 2.0)).sum() / outputs.sum())


def batch_grid(most: int) -> list[int]:
    """Batches from 1 to `most`: each of the first eight, then about a fifth more at a time."""
    batches = list(range(1, min(most, _DENSE) + 1))
    while batches[-1] < most:
        batches.append(min(most, max(batches[-1] + 1, round(batches[-1] * 1.2))))
    return batches


def rows_of(compared: Sequence[PolicyOutcome]) -> list[dict[str, Any]]:
    """One row a policy: means over seeds, and ratios to others seed by seed with 80 % intervals.

    Args:
        compared: all policies, over the same seeds.

    Returns:
        `regret_ratio` is what the mean score loses against the best policy that is no bound, plain
        decoding counted; `to_ours`, `to_expected` and `to_oracle` are ratios of scores, with [lo,
        hi] where there are several seeds.
    """
    scores = {policy.name: np.array(policy.scores) for policy in compared}
    best = max(values.mean() for name, values in scores.items() if name not in BOUNDS)
    rows = []
    for policy in compared:
        own_scores = scores[policy.name]
        row: dict[str, Any] = {
            "name": policy.name,
            "meaning": MEANINGS[policy.name],
            "score": float(own_scores.mean()),
            **{
                name: _mean(policy.metrics, name)
                for name in ("tokens_per_s", "goodput_per_s", "tokens_per_step")
            },
            "tpot_s": _mean([m["tpot_s"] for m in policy.metrics], "mean"),
            "ttft_s": _mean([m["ttft_s"] for m in policy.metrics], "mean"),
            "drafted_per_step": float(
                np.mean([m["drafted"] / max(m["steps"], 1) for m in policy.metrics])
            ),
            "length_changes": _mean(policy.metrics, "length_changes"),
            "score_interval": _interval(own_scores),
            "regret_ratio": (
                None
                if policy.name in BOUNDS or best <= 0.0
                else float(1.0 - own_scores.mean() / best)
            ),
        }
        for other in (OURS, *BOUNDS):
            if other in scores and np.all(scores[other] > 0.0):
                ratios = own_scores / scores[other]
                row[f"to_{other}"] = {"ratio": float(ratios.mean()), "interval": _interval(ratios)}
        rows.append(row)
    return rows


def _chains(prepared: Prepared) -> SpeculationOptions:
    options = prepared.speculation
    if options is None or not isinstance(options.topology, int) or options.draft_tokens < 1:
        rule = "compares draft lengths of chains: state --trace and --draft-tokens K, the longest"
        raise InputError(rule, key="--policies", value=type(options).__name__)
    if not options.law.by_matching:
        rule = "walks along recordings whose tokens are matched; those of this method are drawn"
        raise InputError(rule, key="--policies", value=options.law.rule)
    return replace(options, stop=Stop())


def _speculation(
    name: str,
    options: SpeculationOptions,
    schedule: Sequence[tuple[int, int, int]],
    gains: tuple[float, ...],
    at_once: bool,
    least_share: float,
    follows: bool,
) -> SpeculationOptions:
    """Speculation under a policy; bounds bear no cost of changing the length.

    `at_once`: drafts are made in one pass, with the drafter's confidence. `follows`: the engine's
    drafter reads the tokens of steps in which it drafts nothing, which all bear, bounds too.
    """
    longest = options.draft_tokens
    rules: dict[str, Callable[[], LengthPolicy]] = {
        OURS: lambda: LengthPolicy(rule="schedule"),
        "vllm": lambda: vllm_verification() if at_once else vllm_lengths(longest),
        "sglang": lambda: sglang_tiers(longest),
        "sglang-throughput": sglang_throughput,
        COST: long_run_verification,
        "tensorrt-llm": lambda: tensorrt_gate(least_share),
        "nightjar": nightjar,
        "goodput": lambda: LengthPolicy(rule="goodput"),
        "fixed": lambda: LengthPolicy(rule="schedule"),
        EXPECTED: lambda: LengthPolicy(rule="expected", gains=gains, rereads=False),
        ORACLE: lambda: LengthPolicy(rule="oracle", rereads=False),
    }
    policy = rules[name]()
    policy = replace(policy, rereads=policy.rereads and not follows)
    by_batch = tuple((first, last, k) for first, last, k in schedule) if name == OURS else ()
    slots = (
        replace(options.batch, slots="likeliest")
        if policy.rule in ("verified", "cost")
        else options.batch
    )
    return replace(options, policy=policy, schedule=by_batch, batch=slots)


def _drafts_at_once(options: SpeculationOptions) -> bool:
    """Whether a longest draft is made in about one pass, and the recording holds how sure the
    drafter was.
    """
    draft, longest = options.draft, options.draft_tokens
    if options.trace.level < 3:
        return False
    return draft is None or draft(1, longest, 1024.0, 0) <= _ONE_PASS * draft(1, 1, 1024.0, 0)


def _mean(metrics: Sequence[Mapping[str, Any]], key: str) -> float | None:
    values = [summary.get(key) for summary in metrics]
    numbers = [value for value in values if value is not None]
    return float(np.mean(numbers)) if len(numbers) == len(values) else None


def _interval(values: np.ndarray[Any, np.dtype[np.float64]]) -> list[float] | None:
    if len(values) < 2:
        return None
    low, high = np.quantile(values, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    return [float(low), float(high)]


def _progress(report: Report, name: str) -> Callable[[int, int], None]:
    return lambda ended, all_of_them: report(name, ended, all_of_them)
