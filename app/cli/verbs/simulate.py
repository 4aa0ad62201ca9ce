"""`simulate`: requests through a scheduler, iteration by iteration, timed by the cost model or a
measured profile.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from app.cli.output import Answered
from app.questions.field import Field, Group, Stated
from app.questions.fields import (
    Config,
    Csv,
    DraftShapes,
    Json,
    ModelOfScenario,
    Out,
    Quiet,
    Seed,
    SloTpot,
    SloTtft,
)
from app.questions.groups import (
    AcceptanceOptions,
    DeploymentOptions,
    DraftingOptions,
    RefiningOptions,
    RequestOptions,
    names_in,
)
from app.questions.resolve.accepted import acceptance_values, draft_lengths
from app.questions.resolve.asked import DEPLOYMENT_FIELDS
from app.questions.resolve.scenarios import asked_scenario
from app.questions.values import milliseconds

if TYPE_CHECKING:
    from app.answers.simulations.cases import LoadPoint, SimulationCase
    from simulator.scenario.file import ScenarioFile

MOST_SEEDS = 1000
_DEPLOYMENT = {
    name: f"--{name.replace('_', '-')}"
    for name in names_in(DeploymentOptions)
    if name in DEPLOYMENT_FIELDS
}
_DRAFTING = {name: f"--{name.replace('_', '-')}" for name in names_in(DraftingOptions)}
_OPTIONS = {
    "requests.file": "--requests",
    "requests.rate_per_s": "--rate",
    "requests.users": "--users",
    "requests.count": "--count",
    "requests.prompt_tokens": "--prompt-tokens",
    "requests.output_tokens": "--output-tokens",
    "deployment.model": "--model",
    **{f"deployment.{DEPLOYMENT_FIELDS[name]}": option for name, option in _DEPLOYMENT.items()},
    **{f"speculation.{name}": option for name, option in _DRAFTING.items()},
    "speculation.draft_tokens": "--draft-tokens",
    "speculation.shape": "--shape",
    "speculation.method": "--method",
    "slo.ttft_s": "--slo-ttft",
    "slo.tpot_s": "--slo-tpot",
}


def simulate(
    stated: Stated,
    placed: DeploymentOptions,
    drafting: DraftingOptions,
    accepted: AcceptanceOptions,
    refining: RefiningOptions,
    asked: RequestOptions,
    model: ModelOfScenario = None,
    trace: Annotated[
        str | None,
        Field(
            (
                "Trace that simulated requests walk along: of acceptance, or of a masked model's"
                " confidence."
            ),
            Group.DRAFTING,
        ),
    ] = None,
    method: Annotated[
        str | None,
        Field("Method slug (`rooftree methods`); default: the trace's.", Group.DRAFTING),
    ] = None,
    shape: DraftShapes = None,
    draft_tokens: Annotated[
        str | None,
        Field(
            "Draft tokens K; several by commas are compared as --good-share does.", Group.DRAFTING
        ),
    ] = None,
    slo_ttft: SloTtft = None,
    slo_tpot: SloTpot = None,
    config: Config = None,
    scenario: Annotated[
        Path | None,
        Field(
            (
                "YAML of sections (requests, deployment, scheduler, speculation, slo and more:"
                " --explain-schema lists "
                "every key); options go over what it says."
            ),
            Group.WORKLOAD,
        ),
    ] = None,
    assigned: Annotated[
        list[str] | None,
        Field(
            (
                "Any key of a scenario: section.key=VALUE (see --explain-schema), or a device's"
                " number: "
                "device.KEY=VALUE. Repeatable."
            ),
            Group.HARDWARE,
            spelled="--set",
        ),
    ] = None,
    explain_schema: Annotated[
        bool,
        Field("List every section.key with type, default, range and meaning.", Group.OUTPUT),
    ] = False,
    compare: Annotated[
        list[str] | None,
        Field(
            (
                "Run a variant on the same requests too: chunked, prefill-first, whole-prompts,"
                " no-prefix-cache, "
                "reserve-output, or autoregressive (one token a pass, nothing drafted or masked)."
                " Repeatable. Where "
                "prompts stay whole, the token budget grows to the longest of them."
            ),
            Group.SEARCH,
        ),
    ] = None,
    policies: Annotated[
        str | None,
        Field(
            (
                "Who sets the draft length while serving, compared on the same requests: names with"
                " commas between, "
                "or all. ours (by batch, as exported), vllm, sglang, sglang-throughput, nightjar,"
                " goodput, fixed, plain, "
                "and the bounds expected and oracle. --draft-tokens is the longest."
            ),
            Group.SEARCH,
        ),
    ] = None,
    rates: Annotated[
        str | None,
        Field("Run at these loads too, requests per second: 1,2,4.", Group.WORKLOAD),
    ] = None,
    good_share: Annotated[
        float | None,
        Field(
            (
                "Find the highest rate at which this share of the requests is within --slo-ttft and"
                " --slo-tpot, for "
                "every draft length or variant; --rates shows goodput there too. Default with"
                " several K: 0.9."
            ),
            Group.LIMITS,
        ),
    ] = None,
    beside: Annotated[
        list[Path] | None,
        Field(
            (
                "Folder of `load --out`: its requests are simulated, and what users of the live"
                " server saw stands "
                "beside. Repeatable; --out keeps replay.json and replay.parquet, to which further"
                " calls add."
            ),
            Group.WORKLOAD,
        ),
    ] = None,
    seeds: Annotated[
        int,
        Field("Repeat over so many seeds, for intervals.", Group.RUN, least=1, most=MOST_SEEDS),
    ] = 1,
    per_request: Annotated[
        Path | None, Field("Parquet with a row per request.", Group.OUTPUT)
    ] = None,
    timeline: Annotated[
        Path | None,
        Field("JSON of trace events for Perfetto or chrome://tracing.", Group.OUTPUT),
    ] = None,
    plot: Annotated[
        Path | None,
        Field("HTML page: waiting times, load over time, goodput over load.", Group.OUTPUT),
    ] = None,
    out: Out = None,
    csv: Csv = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """Simulate serving: arrivals, router, scheduler, cache and speculation, one event per engine
    iteration.

    The options here are the usual ones; --set and --scenario reach every key, and --explain-schema
    lists them.

    Example: rooftree simulate --model llama-3.1-8b --rate 4 --count 500 --prompt-tokens
    lognormal:1000:1 --output-tokens exponential:250 --slo-ttft 1000 --slo-tpot 50 --set
    scheduler.token_budget=2048
    """
    from app.answers.simulations.runs import rates_of, variants_of
    from app.cli.output import deliver
    from app.cli.shown.simulate import print_cases, print_schema
    from app.questions.places import require_file

    if explain_schema:
        return print_schema(json=json)
    for path, option in (
        (per_request, "--per-request"),
        (timeline, "--timeline"),
        (plot, "--plot"),
    ):
        if path is not None:
            require_file(path, option)
    lengths = draft_lengths(draft_tokens, least=0) or []
    length = max(lengths, default=None)
    named = {
        **asked.named,
        "deployment.model": model,
        **_deployed(stated.given),
        "speculation.draft_tokens": length,
        "speculation.shape": shape,
        "speculation.method": method,
        **acceptance_values(accepted, trace, length, model, config, assigned=assigned or ()),
        "slo.ttft_s": milliseconds(slo_ttft, "--slo-ttft"),
        "slo.tpot_s": milliseconds(slo_tpot, "--slo-tpot"),
    }
    if beside:
        _only_beside(
            named,
            {
                "--compare": compare,
                "--policies": policies,
                "--rates": rates,
                "--good-share": good_share,
                "--seeds": None if seeds == 1 else seeds,
                "--per-request": per_request,
                "--timeline": timeline,
                "--plot": plot,
                "--csv": csv,
            },
        )
        named["requests.file"] = str(beside[0])
    named = {key: value for key, value in named.items() if value is not None}
    written, assumed = asked_scenario(
        named, assigned or (), scenario, config, refining, options=_OPTIONS
    )
    if beside:
        return _beside(written, beside, assumed, seed=seed, out=out, json=json, quiet=quiet)
    if policies is not None:
        _alone(
            "--policies",
            {
                "--compare": compare,
                "--rates": rates,
                "--good-share": good_share,
                "--per-request": per_request,
                "--timeline": timeline,
                "--plot": plot,
            },
        )
        return _policies(
            written,
            policies,
            assumed,
            range(seed, seed + seeds),
            out=out,
            csv=csv,
            json=json,
            quiet=quiet,
        )
    variants, loads = variants_of(compare), rates_of(rates)
    if good_share is not None or len(lengths) > 1:
        _alone("--good-share", {"--per-request": per_request, "--timeline": timeline})
        if len(lengths) > 1:
            _alone("several --draft-tokens", {"--compare": compare})
        answered = _highest(
            written,
            lengths if len(lengths) > 1 else [],
            variants,
            loads,
            good_share,
            range(seed, seed + seeds),
            quiet=quiet,
        )
        return _highest_delivered(
            written, *answered, assumed, plot, out=out, csv=csv, json=json, quiet=quiet
        )
    answer, cases, points = _run(written, variants, loads, range(seed, seed + seeds), quiet=quiet)
    answer["notes"] = [*assumed, *answer["notes"]]
    answer["inputs"] |= {"seed": seed, "compare": list(compare or ()), "rates": loads}
    _write_files(cases, points, per_request, timeline, plot, title=_title(written))
    return deliver(
        answer,
        name="simulation",
        json=json,
        out=out,
        quiet=quiet,
        show=lambda: print_cases(cases, points, answer, _title(written)),
        csv=csv,
        rows=[{"name": each.name, "metrics": each.metrics} for each in cases] + ["load"],
    )


def _deployed(given: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of a scenario for the options of deployment and drafter that stand on the command line."""
    deployment = {
        f"deployment.{DEPLOYMENT_FIELDS[name]}": given[name]
        for name in _DEPLOYMENT
        if name in given
    }
    return deployment | {f"speculation.{name}": given[name] for name in _DRAFTING if name in given}


def _only_beside(named: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    """Refuse what measured loads say already, and what is not written for them."""
    from hardware_profiles.errors import InputError

    given = [
        _OPTIONS[key]
        for key, value in named.items()
        if key.startswith("requests.") and value is not None
    ]
    if refused := [*given, *(option for option, value in others.items() if value is not None)]:
        raise InputError(
            "goes without --beside, whose loads are simulated as they are", key=refused[0]
        )


def _alone(option: str, others: Mapping[str, Any]) -> None:
    """Refuse what has no meaning beside an option."""
    from hardware_profiles.errors import InputError

    if refused := [name for name, value in others.items() if value is not None]:
        raise InputError(f"goes without {option}", key=refused[0])


def _policies(
    written: "ScenarioFile",
    names: str,
    assumed: list[str],
    seeds: range,
    *,
    out: Path | None,
    csv: Path | None,
    json: bool,
    quiet: bool,
) -> Answered:
    """Policies of draft lengths on the same requests."""
    from app.answers.simulations.length_policies import compared_policies, policy_names, rows_of
    from app.answers.simulations.runs import prepared_of
    from app.cli.output import deliver
    from app.cli.progress import counting
    from app.cli.shown.length_policies import print_policies

    asked = policy_names(names)
    with counting(quiet) as report:
        prepared = prepared_of(written)
        compared, about = compared_policies(prepared, asked, seeds, report)
    rows = rows_of(compared)
    inputs = {**written.model_dump(mode="json", by_alias=True), "policies": asked}
    notes = [*assumed, *prepared.notes, *about.pop("notes")]
    answer = {"inputs": inputs, "policies": rows, **about, "seeds": list(seeds), "notes": notes}
    return deliver(
        answer,
        name="policies",
        json=json,
        out=out,
        quiet=quiet,
        show=lambda: print_policies(rows, answer, _title(written)),
        csv=csv,
        rows=["policies"],
    )


def _beside(
    written: "ScenarioFile",
    paths: list[Path],
    assumed: list[str],
    *,
    seed: int,
    out: Path | None,
    json: bool,
    quiet: bool,
) -> Answered:
    """Measured loads and their simulations."""
    from app.answers.simulations.replayed_loads import load_names, replayed
    from app.cli.output import deliver
    from app.cli.progress import counting
    from app.cli.shown.replayed import load_object, print_replays
    from real_runs.validation.load_replay import write_replays

    loads = load_names(paths)
    with counting(quiet) as report:
        found, notes = replayed(written, loads, seed, report)
    inputs = {**written.model_dump(mode="json", by_alias=True), "seed": seed}
    notes = [*assumed, *notes]
    body = {"inputs": inputs, "loads": [load_object(each) for each in found], "notes": notes}
    return deliver(
        body,
        name="",
        json=json,
        out=out,
        quiet=quiet,
        show=lambda: print_replays(found, notes),
        also=lambda folder: write_replays(folder, found, inputs=inputs, earlier=out),
    )


def _highest(
    written: "ScenarioFile",
    lengths: list[int],
    variants: list[tuple[str, Mapping[str, bool]]],
    loads: list[float],
    good_share: float | None,
    seeds: range,
    *,
    quiet: bool,
) -> "tuple[dict[str, Any], list[LoadPoint]]":
    """The highest rates of draft lengths or variants, and what happens at stated loads."""
    from app.answers.simulations.highest_rates import SHARE, highest_rates, settings_of
    from app.answers.simulations.runs import prepared_of
    from app.cli.progress import counting
    from costmodel.answers.workload import Limits
    from hardware_profiles.errors import InputError

    share = SHARE if good_share is None else good_share
    if not 0.0 < share <= 1.0:
        raise InputError("must lie in 0..1, 0 excluded", key="--good-share", value=share)
    if written.slo.ttft_s is None and written.slo.tpot_s is None:
        raise InputError(
            "counts requests within limits; state --slo-ttft, --slo-tpot or both",
            key="--good-share",
        )
    with counting(quiet) as report:
        prepared = prepared_of(written)
        settings = settings_of(prepared, lengths, variants)
        highest, points = highest_rates(settings, loads, share, seeds, report)
    inputs = {
        **written.model_dump(mode="json", by_alias=True),
        "seed": seeds[0],
        "draft_tokens": lengths or None,
        "rates": loads,
        "good_share": share,
    }
    rows = [{"name": p.name, "rate_per_s": p.rate_per_s, "metrics": p.metrics} for p in points]
    answer = {
        "inputs": inputs,
        "good_share": share,
        "limits": (
            Limits(ttft_s=written.slo.ttft_s, tpot_s=written.slo.tpot_s, share_ratio=share).words
        ),
        "highest_rates": [each.as_json() for each in highest],
        "load": rows,
    }
    return answer | {"seeds": list(seeds), "notes": list(prepared.notes)}, points


def _highest_delivered(
    written: "ScenarioFile",
    answer: dict[str, Any],
    points: "list[LoadPoint]",
    assumed: list[str],
    plot: Path | None,
    *,
    out: Path | None,
    csv: Path | None,
    json: bool,
    quiet: bool,
) -> Answered:
    from app.cli.output import deliver
    from app.cli.shown.simulate import print_highest_rates

    answer["notes"] = [*assumed, *answer["notes"]]
    if plot is not None:
        from app.render.html.simulation_page import write_load_page

        write_load_page(
            answer["highest_rates"], points, answer["good_share"], plot, title=_title(written)
        )
    return deliver(
        answer,
        name="simulation",
        json=json,
        out=out,
        quiet=quiet,
        csv=csv,
        rows=["highest_rates", "load"],
        show=lambda: print_highest_rates(answer, points, _title(written)),
    )


def _run(
    written: "ScenarioFile",
    variants: list[tuple[str, Mapping[str, bool]]],
    loads: list[float],
    seeds: range,
    *,
    quiet: bool,
) -> "tuple[dict[str, Any], list[SimulationCase], list[LoadPoint]]":
    """The answer, its cases and its loads."""
    from dataclasses import asdict

    from app.answers.simulations.runs import over_seeds, prepared_of, run_cases, run_loads
    from app.cli.progress import counting

    with counting(quiet) as report:
        prepared = prepared_of(written)
        cases = run_cases(prepared, variants, seeds[0], report)
        points = run_loads(prepared, variants, loads, seeds[0], report)
        spread = over_seeds(prepared, cases[0].metrics, seeds, report)
    answer: dict[str, Any] = {
        "inputs": written.model_dump(mode="json", by_alias=True),
        "metrics": cases[0].metrics,
    }
    answer["scheduler"] = asdict(prepared.scheduler)
    if spread is not None:
        answer |= {"metrics_interval": spread, "seeds": list(seeds)}
    if len(cases) > 1:
        answer["cases"] = [{"name": case.name, "metrics": case.metrics} for case in cases]
    if points:
        answer["load"] = [
            {"name": p.name, "rate_per_s": p.rate_per_s, "metrics": p.metrics} for p in points
        ]
    return answer | {"notes": list(prepared.notes)}, cases, points


def _write_files(
    cases: "list[SimulationCase]",
    points: "list[LoadPoint]",
    per_request: Path | None,
    timeline: Path | None,
    plot: Path | None,
    *,
    title: str,
) -> None:
    first = cases[0].result
    if per_request is not None:
        from app.answers.simulations.runs import write_per_request

        per_request.parent.mkdir(parents=True, exist_ok=True)
        write_per_request(first, per_request)
    if timeline is not None:
        from simulator.results.timeline import write_timeline

        timeline.parent.mkdir(parents=True, exist_ok=True)
        write_timeline(first, timeline, title=title)
    if plot is not None:
        from app.render.html.simulation_page import write_simulation_page

        write_simulation_page(cases, points, plot, title=title)


def _title(written: "ScenarioFile") -> str:
    if written.profile is not None:
        return (
            f"{Path(written.profile.prefix).name} (measured kernels), {written.requests.arrivals}"
            " arrivals"
        )
    d = written.deployment
    return f"{d.model} on {d.device}, {d.engine}, {written.requests.arrivals} arrivals"
