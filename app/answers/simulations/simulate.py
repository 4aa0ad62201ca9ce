"""`simulate`: requests through a scheduler, iteration by iteration, timed by the cost model or a
measured profile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from app.answers.answer import Answer
from app.answers.deployment_words import deployment_words
from app.answers.numbers import plain
from app.answers.progress import counting, terminal_line
from app.answers.simulations.highest_rates import SHARE, highest_rates, settings_of
from app.answers.simulations.length_policies import compared_policies, policy_names, rows_of
from app.answers.simulations.replayed_loads import load_names, replayed
from app.answers.simulations.rows import (
    ComparedPolicies,
    HighestRateRow,
    HighestRates,
    LoadBeside,
    LoadsBeside,
    PolicyRow,
    ScenarioKeys,
    Simulated,
    Simulation,
    loaded,
    served,
)
from app.answers.simulations.runs import (
    over_seeds,
    prepared_of,
    run_cases,
    run_loads,
    variants_of,
    write_per_request,
)
from app.questions.groups import REQUEST_OPTIONS, DeploymentOptions, DraftingOptions, names_in
from app.questions.places import require_file
from app.questions.resolve.accepted import stated_acceptance, undrafted
from app.questions.resolve.chosen_configuration import DEPLOYMENT_FIELDS
from app.questions.resolve.limits import limit_seconds, refuse_percentiles
from app.questions.resolve.scenarios import asked_scenario
from app.questions.simulate import SimulateQuestion
from hardware_profiles.errors import InputError
from hardware_profiles.machine_code import is_compiled
from simulator.loop import compiled as loop
from simulator.results.metrics import SimulationResult
from simulator.results.timeline import write_timeline
from simulator.scenario.build import Prepared
from simulator.scenario.file import DeploymentSection, Requests, ScenarioFile
from simulator.scenario.schema import schema_keys

_DEPLOYMENT = {
    name: f"--{name.replace('_', '-')}"
    for name in names_in(DeploymentOptions)
    if name in DEPLOYMENT_FIELDS
}
_DRAFTING = {name: f"--{name.replace('_', '-')}" for name in names_in(DraftingOptions)}
# the option that states a key of a scenario, for refusals; other keys are stated by --set
OPTIONS = {
    **REQUEST_OPTIONS,
    "deployment.model": "--model",
    **{f"deployment.{DEPLOYMENT_FIELDS[name]}": option for name, option in _DEPLOYMENT.items()},
    **{f"speculation.{name}": option for name, option in _DRAFTING.items()},
    "speculation.draft_tokens": "--draft-tokens",
    "speculation.shape": "--shape",
    "speculation.method": "--method",
    "slo.ttft_s": "--slo-ttft",
    "slo.tpot_s": "--slo-tpot",
    "slo.e2e_s": "--slo-e2e",
}


_NOT_WITH_POLICIES = ("compare", "rates", "good_share", "per_request", "plot")
_NOT_BESIDE = (
    "compare",
    "policies",
    "rates",
    "good_share",
    "per_request",
    "timeline",
    "plot",
    "csv",
)


def answer(question: SimulateQuestion) -> Answer:
    """Simulate what a question asks: a scenario with its variants and loads, the highest rates,
    policies of draft lengths, or measured loads.

    Raises:
        InputError: options that make no scenario, or that have no meaning beside each other.
    """
    question = undrafted(question)
    if question.explain_schema:
        return ScenarioKeys(inputs={}, keys=schema_keys())
    for name in ("per_request", "timeline", "plot"):
        if (path := getattr(question, name)) is not None:
            require_file(path, _option(name))
    lengths = question.draft_tokens or ()
    written, assumed = scenario_of(question, max(lengths, default=None))
    if written.sample_replicas is not None:
        _refuse_sampled(question)
    if not is_compiled(loop.__file__):
        words = "compiling the simulator, once on this machine: some 10 seconds of a processor"
        terminal_line(words, quiet=question.quiet)
    if question.beside:
        return _beside(question, written, assumed)
    if question.policies is not None:
        _refuse_beside("--policies", question, _NOT_WITH_POLICIES)
        return _policies(question, written, assumed)
    if len(lengths) > 1 and question.good_share is None and written.requests.arrivals == "closed":
        _refuse_beside(
            "several --draft-tokens", question, ("compare", "rates", "per_request", "timeline")
        )
        return _simulation(question, written, assumed, lengths)
    if question.good_share is not None or len(lengths) > 1:
        _require_arrivals(written)
        _refuse_beside("--good-share", question, ("per_request", "timeline"))
        if len(lengths) > 1:
            _refuse_beside("several --draft-tokens", question, ("compare",))
        return _highest(question, written, assumed, lengths if len(lengths) > 1 else ())
    return _simulation(question, written, assumed)


def _require_arrivals(written: ScenarioFile) -> None:
    """Refuse to look for the highest rate of users who send one request after the other.

    Raises:
        InputError: that is so.
    """
    if written.requests.arrivals == "closed":
        raise InputError(
            "looks for a rate of requests, and users who wait for their answers (--users, or where"
            " no traffic is stated) have none; state --rate",
            key="--good-share",
        )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _seeds(question: SimulateQuestion) -> range:
    return range(question.seed, question.seed + question.seeds)


def scenario_of(
    question: SimulateQuestion, draft_tokens: int | None
) -> tuple[ScenarioFile, list[str]]:
    """The scenario that is asked about, and what was assumed of it.

    Args:
        question: of simulate.
        draft_tokens: the longest of its draft lengths; None: it states none.

    Raises:
        InputError: options that make no scenario.
    """
    refuse_percentiles(
        question,
        "limits count requests one by one here: write the milliseconds alone and the share as"
        " --good-share 0.99; `rooftree capacity` plans for percentiles",
    )
    assigned = question.assigned or ()
    named = {
        **question.named,
        "deployment.model": question.model,
        **_deployed(question.stated_values),
        "speculation.draft_tokens": draft_tokens,
        "speculation.shape": question.shape,
        "speculation.method": question.method,
        **stated_acceptance(question, question.trace, draft_tokens),
        **{f"slo.{key}": seconds for key, seconds in limit_seconds(question).items()},
    }
    if question.beside:
        _refuse_requests(named)
        _refuse_loads_and(question)
        named["requests.file"] = str(question.beside[0])
    return asked_scenario(
        {key: value for key, value in named.items() if value is not None},
        assigned,
        question.scenario,
        question.config,
        question,
        question,
        options=OPTIONS,
    )


def _deployed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of a scenario for the options of deployment and drafter that stand on the command line."""
    deployment = {
        f"deployment.{DEPLOYMENT_FIELDS[name]}": options[name]
        for name in _DEPLOYMENT
        if name in options
    }
    return deployment | {
        f"speculation.{name}": options[name] for name in _DRAFTING if name in options
    }


_BESIDE_RULE = "goes without --beside, whose loads are simulated as they are"


def _refuse_requests(named: Mapping[str, Any]) -> None:
    """Refuse requests beside measured loads, which are the requests."""
    for key, value in named.items():
        if key.startswith("requests.") and value is not None:
            raise InputError(_BESIDE_RULE, key=OPTIONS[key])


def _refuse_loads_and(question: SimulateQuestion) -> None:
    """Refuse what is not written for measured loads."""
    for name in (*_NOT_BESIDE, *(["seeds"] if question.seeds > 1 else [])):
        if getattr(question, name) is not None:
            raise InputError(_BESIDE_RULE, key=_option(name))


def _refuse_beside(option: str, question: SimulateQuestion, names: Sequence[str]) -> None:
    """Refuse what has no meaning beside an option."""
    for name in names:
        if getattr(question, name) is not None:
            raise InputError(f"goes without {option}", key=_option(name))


def _refuse_sampled(question: SimulateQuestion) -> None:
    """Refuse what compares requests one by one, or lengthens a run by what it had."""
    _refuse_beside("sample_replicas", question, ("beside", "policies", "good_share"))
    if len(question.draft_tokens or ()) > 1:
        raise InputError("goes without sample_replicas where it is several", key="--draft-tokens")


def _policies(
    question: SimulateQuestion, written: ScenarioFile, assumed: list[str]
) -> ComparedPolicies:
    """Policies of draft lengths on the same requests."""
    names, seeds = policy_names(question.policies or ""), _seeds(question)
    timeline = question.timeline

    def seen(name: str, result: SimulationResult) -> None:
        if timeline is not None:
            timeline.parent.mkdir(parents=True, exist_ok=True)
            own = timeline.with_name(f"{timeline.stem}-{name}{timeline.suffix}")
            write_timeline(result, own, title=f"{_title(prepared)}, {name}")

    with counting(question.quiet) as report:
        prepared = prepared_of(written)
        outcomes, about = compared_policies(prepared, names, seeds, report, seen)
    return ComparedPolicies(
        inputs={**written.model_dump(mode="json", by_alias=True), "policies": names},
        policies=[PolicyRow(**row) for row in rows_of(outcomes)],
        schedule=about["schedule"],
        by=about["by"],
        seeds=list(seeds),
        notes=[*assumed, *prepared.notes, *about["notes"]],
        title=_title(prepared, drafts=False),
    )


def _beside(question: SimulateQuestion, written: ScenarioFile, assumed: list[str]) -> LoadsBeside:
    """Measured loads and their simulations."""
    loads = load_names(question.beside or ())
    with counting(question.quiet) as report:
        replays, notes = replayed(written, loads, question.seed, report)
    return LoadsBeside(
        inputs={**written.model_dump(mode="json", by_alias=True), "seed": question.seed},
        loads=[
            LoadBeside(
                name=replay.name,
                requests=replay.requests,
                rate_per_s=replay.rate_per_s,
                metrics=replay.metrics,
                notes=replay.notes,
            )
            for replay in replays
        ],
        notes=[*assumed, *notes],
        replays=replays,
    )


def _highest(
    question: SimulateQuestion, written: ScenarioFile, assumed: list[str], lengths: Sequence[int]
) -> HighestRates:
    """The highest rates of draft lengths or variants, and what happens at stated loads."""
    share = SHARE if question.good_share is None else question.good_share
    if not 0.0 < share <= 1.0:
        raise InputError("must lie in 0..1, 0 excluded", key="--good-share", value=share)
    limits = replace(written.slo.limits, share_ratio=share)
    asked = written.requests.rate_per_s
    rates = question.rates or (() if asked is None else (asked,))
    variants, seeds = variants_of(question.compare), _seeds(question)
    with counting(question.quiet) as report:
        prepared = prepared_of(written)
        settings = settings_of(prepared, lengths, variants)
        highest, points, tried = highest_rates(settings, rates, share, seeds, report)
    return HighestRates(
        inputs={
            **written.model_dump(mode="json", by_alias=True),
            "seed": question.seed,
            "draft_tokens": lengths or None,
            "rates": question.rates or (),
            "good_share": share,
        },
        good_share=share,
        limits=limits.words,
        highest_rates=[HighestRateRow(**rate.as_json()) for rate in highest],
        load=served(points, highest),
        is_one_rate=question.rates is None and asked is not None,
        seeds=list(seeds),
        notes=[*assumed, *prepared.notes],
        title=_title(prepared, drafts=not lengths),
        points=points,
        tried=tried,
    )


def _simulation(
    question: SimulateQuestion,
    written: ScenarioFile,
    assumed: list[str],
    lengths: Sequence[int] = (),
) -> Simulation:
    """The scenario, its variants and loads, and the files of the first.

    Args:
        question: what is asked.
        written: the scenario.
        assumed: of it, in words.
        lengths: draft tokens, 0 for none, that are compared in place of variants; empty: those of
            the scenario.
    """
    variants, rates = variants_of(question.compare), question.rates or ()
    seeds = _seeds(question)
    with counting(question.quiet) as report:
        prepared = prepared_of(written)
        settings = settings_of(prepared, lengths, variants) if lengths else []
        cases = [
            case
            for setting in settings
            if setting.prepared is not None
            for case in run_cases(setting.prepared, [(setting.name, {})], question.seed, report)
        ] or run_cases(prepared, variants, question.seed, report)
        points = run_loads(prepared, variants, rates, question.seed, report)
        spread = None if lengths else over_seeds(prepared, cases[0].metrics, seeds, report)
    if question.per_request is not None:
        question.per_request.parent.mkdir(parents=True, exist_ok=True)
        write_per_request(cases[0].result, question.per_request)
    if question.timeline is not None:
        question.timeline.parent.mkdir(parents=True, exist_ok=True)
        write_timeline(cases[0].result, question.timeline, title=_title(prepared))
    inputs = written.model_dump(mode="json", by_alias=True)
    several = len(cases) > 1
    return Simulation(
        inputs=inputs
        | {"seed": question.seed, "compare": list(question.compare or ()), "rates": rates}
        | ({"draft_tokens": lengths} if lengths else {}),
        metrics=cases[0].metrics,
        scheduler=asdict(prepared.scheduler),
        metrics_interval=spread,
        seeds=None if spread is None else list(seeds),
        cases=[Simulated(name=c.name, metrics=c.metrics) for c in cases] if several else None,
        load=loaded(points) or None,
        notes=[
            *(f"{setting.name}: {setting.reason}" for setting in settings if setting.reason),
            *assumed,
            *prepared.notes,
            *_marching(cases[0].result),
        ],
        title=_title(prepared, drafts=not lengths),
        simulated=cases,
        points=points,
    )


def _marching(result: SimulationResult) -> list[str]:
    """What equal requests of a closed loop are, in words; nothing where they drift apart."""
    equal = np.ptp(result.input_tokens) == 0 and np.ptp(result.output_tokens) == 0
    if (result.users or 1) == 1 or not equal or result.counters["drafted"]:
        return []
    return [
        "requests of one length that begin together stay together, so that each waits for the prompts of"
        " others, as in a benchmark of fixed lengths; --output-tokens uniform:LOW:HIGH lets them drift apart"
    ]


def _title(prepared: Prepared, *, drafts: bool = True) -> str:
    """What serves which requests, in words.

    Args:
        prepared: a scenario.
        drafts: say what is drafted, too.
    """
    written, setting = prepared.written, prepared.setting
    if written.profile is not None:
        where = f"{Path(written.profile.prefix).name} (measured kernels)"
    else:
        known = {} if setting is None else {"dtype": setting.deployment.precision.label}
        where = deployment_words(_by_keyword(written.deployment) | known)
    parts = [where, _drafts_words(prepared) if drafts else "", _arrivals_words(written.requests)]
    return ", ".join(filter(None, parts))


def _by_keyword(section: DeploymentSection) -> dict[str, Any]:
    """The names of a deployment by the keywords of the verbs."""
    values = section.model_dump()
    return {name: values[key] for name, key in DEPLOYMENT_FIELDS.items() if key in values}


def _drafts_words(prepared: Prepared) -> str:
    """What drafts and how much; empty where nothing is drafted."""
    written = prepared.written.speculation
    if written is None or written.refine is not None or written.draft_tokens == 0:
        return ""
    method = written.method or (
        "" if prepared.setting is None else prepared.setting.drafter.method.slug
    )
    if written.schedule:
        return f"{method} with a draft length by batch"
    how_many = written.shape
    if how_many is None and written.draft_tokens is not None:
        how_many = f"{written.draft_tokens} draft token{'s' if written.draft_tokens > 1 else ''}"
    return f"{method} with {how_many}" if how_many else method


def _arrivals_words(requests: Requests) -> str:
    """Who sends requests, and how fast."""
    if requests.arrivals == "closed":
        users = requests.users or 1
        return f"{users:,} user{'s' if users > 1 else ''}"
    if requests.arrivals == "recorded":
        return "recorded arrivals"
    return f"{plain(requests.rate_per_s or 0.0)} requests/s, {requests.arrivals} arrivals"
