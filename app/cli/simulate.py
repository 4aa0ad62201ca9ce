"""`simulate`: requests through a scheduler, iteration by iteration, timed by the cost model or a measured profile."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.options import (
    Draft,
    DraftBytes,
    DraftPasses,
    Dtype,
    ExitLayer,
    Json,
    KvDtype,
    MatchRate,
    Out,
    Overrides,
    Quiet,
    Seed,
    milliseconds,
)
from app.cli.simulate_parameters import (
    AttentionGroups,
    Branches,
    ClosingPasses,
    CommitRatio,
    DecodeBlock,
    DecodePasses,
    DecodeQuery,
    FfnDevice,
    FfnLatency,
    FfnLink,
    FfnTp,
    GroupRequests,
    Interference,
    MicroBatches,
    Overlapped,
    Parts,
    Priorities,
    Ragged,
    StopRatio,
)

if TYPE_CHECKING:
    from app.simulation_page import Case, LoadPoint
    from simulator.scenario_file import ScenarioFile

MOST_SEEDS = 1000


def simulate(
    requests: Annotated[
        Path | None,
        typer.Option("--requests", help="Recorded requests: request trace, or a file that `traces import` knows."),
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", help="Format of that file: azure, mooncake, vllm-requests, lengths.")
    ] = None,
    scenario: Annotated[
        Path | None, typer.Option("--scenario", help="YAML of sections; options go over what it says.")
    ] = None,
    arrivals: Annotated[
        str | None,
        typer.Option(
            "--arrivals",
            help="recorded, poisson, gamma (bursty gaps), modulated (calm and bursts) or closed (users). "
            "--rate alone means poisson, --users closed.",
        ),
    ] = None,
    rate: Annotated[float | None, typer.Option("--rate", help="Mean requests per second of drawn arrivals.")] = None,
    variation: Annotated[
        float | None, typer.Option("--variation", help="gamma: standard deviation of a gap over its mean (2).")
    ] = None,
    burst_ratio: Annotated[
        float | None, typer.Option("--burst-ratio", help="modulated: rate of a burst over that of calm (5).")
    ] = None,
    calm: Annotated[float | None, typer.Option("--calm", help="modulated: mean seconds of calm (60).")] = None,
    burst: Annotated[float | None, typer.Option("--burst", help="modulated: mean seconds of a burst (10).")] = None,
    users: Annotated[int | None, typer.Option("--users", help="Closed loop: users, each with one request.")] = None,
    think: Annotated[
        float | None, typer.Option("--think", help="Closed loop: ms between an answer and the next request.")
    ] = None,
    count: Annotated[int | None, typer.Option("--count", help="Requests; default: all of the file.")] = None,
    prompt_tokens: Annotated[
        str | None,
        typer.Option(
            "--prompt-tokens",
            help="Without a file: N, uniform:LOW:HIGH, exponential:MEAN or lognormal:MEAN:VARIATION.",
        ),
    ] = None,
    output_tokens: Annotated[str | None, typer.Option("--output-tokens", help="Likewise.")] = None,
    priorities: Priorities = None,
    speed: Annotated[float | None, typer.Option("--speed", help="Recorded arrivals so many times as fast.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Shipped name (see `models`) or path of a config.json.")
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="Shipped name (see `devices`) or a TOML file. Default: h100-sxm.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            help="Engine whose overheads and scheduler defaults apply (vllm); with --profile: JSON of its settings.",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option("--profile", help="Measured kernels instead of the cost model: path up to _attention.parquet."),
    ] = None,
    overhead: Annotated[
        float | None, typer.Option("--overhead", help="With --profile: ms that the engine adds to an iteration (0).")
    ] = None,
    tp: Annotated[int | None, typer.Option("--tp", help="Devices that share the model.")] = None,
    pp: Annotated[int | None, typer.Option("--pp", help="Pipeline stages of consecutive layers.")] = None,
    ep: Annotated[int | None, typer.Option("--ep", help="Devices that share the routed experts, each whole.")] = None,
    dp: Annotated[int | None, typer.Option("--dp", help="Copies of the other layers within one engine.")] = None,
    cp: Annotated[int | None, typer.Option("--cp", help="Devices that share the tokens of every request.")] = None,
    dtype: Dtype = None,
    kv_dtype: KvDtype = None,
    fidelity: Annotated[str | None, typer.Option("--fidelity", help="calibrated or datasheet.")] = None,
    overrides: Overrides = None,
    token_budget: Annotated[
        int | None, typer.Option("--token-budget", help="Most query tokens of an iteration; default: the engine's.")
    ] = None,
    max_requests: Annotated[
        int | None, typer.Option("--max-requests", help="Most requests in flight; default: the engine's.")
    ] = None,
    chunked_prefill: Annotated[
        bool | None,
        typer.Option("--chunked-prefill/--no-chunked-prefill", help="Prompts may be split over iterations."),
    ] = None,
    prefill_first: Annotated[
        bool | None,
        typer.Option("--prefill-first/--mixed", help="Prompts run alone, before anybody decodes, or beside decodes."),
    ] = None,
    prefix_cache: Annotated[
        bool | None, typer.Option("--prefix-cache/--no-prefix-cache", help="Prompts share cache blocks.")
    ] = None,
    block_tokens: Annotated[int | None, typer.Option("--block-tokens", help="Tokens of a cache block (16).")] = None,
    kv_blocks: Annotated[
        int | None, typer.Option("--kv-blocks", help="Blocks of the cache; default: what memory leaves.")
    ] = None,
    watermark: Annotated[
        float | None, typer.Option("--watermark", help="Share of the blocks that admission leaves free (0).")
    ] = None,
    preemption: Annotated[str | None, typer.Option("--preemption", help="recompute or swap.")] = None,
    swap_block: Annotated[
        float | None, typer.Option("--swap-block", help="ms to swap a block one way; default: over the host's link.")
    ] = None,
    reserve_output: Annotated[
        bool | None, typer.Option("--reserve-output/--no-reserve-output", help="Admit only what fits to its end.")
    ] = None,
    replicas: Annotated[int | None, typer.Option("--replicas", help="Engines behind the router (1).")] = None,
    router: Annotated[str | None, typer.Option("--router", help="round-robin, least-loaded or prefix.")] = None,
    prefill_replicas: Annotated[
        int | None, typer.Option("--prefill-replicas", help="Engines that compute prompts only, beside the others.")
    ] = None,
    transfer: Annotated[
        float | None,
        typer.Option("--transfer", help="ms to move one token's cache to those that decode; default: over links."),
    ] = None,
    trace: Annotated[
        str | None, typer.Option("--trace", help="Acceptance trace that simulated requests walk along.")
    ] = None,
    draft_tokens: Annotated[int | None, typer.Option("--draft-tokens", help="Draft tokens K.")] = None,
    tree: Annotated[Path | None, typer.Option("--tree", help="Tree JSON instead.")] = None,
    schedule: Annotated[
        str | None, typer.Option("--schedule", help="K by decoding requests: FIRST-LAST:K,... such as 1-16:5,17-64:3.")
    ] = None,
    method: Annotated[str | None, typer.Option("--method", help="Method slug; default: the trace's.")] = None,
    draft: Draft = None,
    exit_layer: ExitLayer = None,
    draft_passes: DraftPasses = None,
    draft_bytes: DraftBytes = None,
    match_rate: MatchRate = None,
    controller: Annotated[
        str | None, typer.Option("--controller", help="Online draft lengths: ema or goodput.")
    ] = None,
    overlap: Overlapped = None,
    branches: Branches = None,
    parts: Parts = None,
    interference: Interference = None,
    stop_ratio: StopRatio = None,
    ragged: Ragged = None,
    group_requests: GroupRequests = None,
    decode_block: DecodeBlock = None,
    decode_passes: DecodePasses = None,
    commit_ratio: CommitRatio = None,
    decode_query: DecodeQuery = None,
    closing_passes: ClosingPasses = None,
    ffn_device: FfnDevice = None,
    ffn_tp: FfnTp = None,
    attention_groups: AttentionGroups = None,
    micro_batches: MicroBatches = None,
    ffn_link: FfnLink = None,
    ffn_latency: FfnLatency = None,
    slo_ttft: Annotated[float | None, typer.Option("--slo-ttft", help="Longest good time to first token, ms.")] = None,
    slo_tpot: Annotated[float | None, typer.Option("--slo-tpot", help="Longest good time per token, ms.")] = None,
    admission: Annotated[
        bool | None, typer.Option("--admission/--no-admission", help="Turn away what would miss these limits.")
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            "--compare",
            help="Run a variant on the same requests too: chunked, prefill-first, whole-prompts, no-prefix-cache, "
            "reserve-output. Repeatable. Where prompts stay whole, the token budget grows to the longest of them.",
        ),
    ] = None,
    rates: Annotated[
        str | None, typer.Option("--rates", help="Run at these loads too, requests per second: 1,2,4.")
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, max=MOST_SEEDS, help="Repeat over so many seeds, for intervals.")
    ] = 1,
    per_request: Annotated[Path | None, typer.Option("--per-request", help="Parquet with a row per request.")] = None,
    timeline: Annotated[
        Path | None, typer.Option("--timeline", help="JSON of trace events for Perfetto or chrome://tracing.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="HTML page: waiting times, load over time, goodput over load.")
    ] = None,
    out: Out = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Simulate serving: arrivals, router, scheduler, cache and speculation, one event per engine iteration.

    Example: rooftree simulate --model llama-3.1-8b --rate 4 --count 500 --prompt-tokens lognormal:1000:1
    --output-tokens exponential:250 --slo-ttft 1000 --slo-tpot 50
    """
    from app.cli.output import deliver, require_file, require_folder
    from app.cli.simulate_options import priority_shares, rates_of, schedule_rows, sections, variants_of

    for path, option in ((per_request, "--per-request"), (timeline, "--timeline"), (plot, "--plot")):
        if path is not None:
            require_file(path, option)
    if out is not None:
        require_folder(out)
    given = {
        "requests": requests, "format": form, "arrivals": arrivals, "rate": rate, "variation": variation,
        "burst_ratio": burst_ratio, "calm": calm, "burst": burst, "users": users, "count": count,
        "think_s": None if think is None else not_negative_ms(think, "--think"), "prompt_tokens": prompt_tokens,
        "output_tokens": output_tokens, "speed": speed, "model": model, "device": device, "engine": engine,
        "profile": profile, "overhead_s": None if overhead is None else not_negative_ms(overhead, "--overhead"),
        "tp": tp, "pp": pp, "ep": ep, "dp": dp, "cp": cp, "dtype": dtype, "kv_dtype": kv_dtype, "fidelity": fidelity,
        "overrides": overrides,
        "token_budget": token_budget, "max_requests": max_requests, "chunked_prefill": chunked_prefill,
        "prefill_first": prefill_first, "prefix_cache": prefix_cache, "block_tokens": block_tokens,
        "kv_blocks": kv_blocks, "watermark": watermark, "preemption": preemption, "reserve_output": reserve_output,
        "swap_block_s": None if swap_block is None else not_negative_ms(swap_block, "--swap-block"),
        "replicas": replicas, "router": router, "prefill_replicas": prefill_replicas,
        "transfer_token_s": None if transfer is None else not_negative_ms(transfer, "--transfer"), "trace": trace,
        "draft_tokens": draft_tokens, "tree": tree, "schedule": schedule_rows(schedule), "method": method,
        "draft": draft, "exit_layer": exit_layer, "draft_passes": draft_passes, "draft_bytes": draft_bytes,
        "match_rate": match_rate, "controller": controller, "overlap": overlap, "branches": branches, "parts": parts,
        "interference_ratio": interference, "stop_ratio": stop_ratio, "ragged": ragged,
        "group_requests": group_requests, "decode_block": decode_block, "decode_passes": decode_passes,
        "commit_ratio": commit_ratio, "decode_query": decode_query, "closing_passes": closing_passes,
        "ffn_device": ffn_device, "ffn_tp": ffn_tp, "attention_groups": attention_groups,
        "micro_batches": micro_batches, "ffn_link": ffn_link, "priorities": priority_shares(priorities),
        "ffn_latency_s": None if ffn_latency is None else not_negative_ms(ffn_latency, "--ffn-latency"),
        "slo_ttft_s": milliseconds(slo_ttft, "--slo-ttft"), "slo_tpot_s": milliseconds(slo_tpot, "--slo-tpot"),
        "admission": admission,
    }  # fmt: skip
    from simulator.scenario_file import checked_scenario, read_scenario_sections

    written = checked_scenario(sections(given, read_scenario_sections(scenario) if scenario else {}), scenario)
    variants, loads = variants_of(compare), rates_of(rates)
    answer, cases, points = _run(written, variants, loads, range(seed, seed + seeds), quiet=quiet)
    answer["inputs"] |= {"seed": seed, "compare": list(compare or ()), "rates": loads}
    _write_files(cases, points, per_request, timeline, plot, title=_title(written))
    deliver(answer, name="simulation", json=json, out=out)
    if not json and not quiet:
        from app.cli.simulate_output import print_cases

        print_cases(cases, points, answer, _title(written))


def not_negative_ms(value: float, option: str) -> float:
    """Milliseconds from 0 up, as seconds.

    Raises:
        InputError: negative, or not finite.
    """
    from hardware_profiles.errors import InputError
    from hardware_profiles.units import MILLI

    if not 0.0 <= value < float("inf"):
        raise InputError("must be a number of milliseconds >= 0", key=option, value=value)
    return value * MILLI


def _run(
    written: "ScenarioFile",
    variants: list[tuple[str, Mapping[str, bool]]],
    loads: list[float],
    seeds: range,
    *,
    quiet: bool,
) -> "tuple[dict[str, Any], list[Case], list[LoadPoint]]":
    """The answer, its cases and its loads."""
    from app.cli.progress import counting
    from app.simulation_runs import over_seeds, run_cases, run_loads
    from simulator.scenario_build import prepare

    with counting(quiet) as report:
        prepared = prepare(written)
        cases = run_cases(prepared, variants, seeds[0], report)
        points = run_loads(prepared, variants, loads, seeds[0], report)
        spread = over_seeds(prepared, cases[0].metrics, seeds, report)
    answer: dict[str, Any] = {"inputs": written.model_dump(mode="json", by_alias=True), "metrics": cases[0].metrics}
    answer["scheduler"] = {name: getattr(prepared.scheduler, name) for name in prepared.scheduler.__slots__}
    if spread is not None:
        answer |= {"metrics_interval": spread, "seeds": list(seeds)}
    if len(cases) > 1:
        answer["cases"] = [{"name": case.name, "metrics": case.metrics} for case in cases]
    if points:
        answer["load"] = [{"name": p.name, "rate_per_s": p.rate_per_s, "metrics": p.metrics} for p in points]
    return answer | {"notes": list(prepared.notes)}, cases, points


def _write_files(
    cases: "list[Case]",
    points: "list[LoadPoint]",
    per_request: Path | None,
    timeline: Path | None,
    plot: Path | None,
    *,
    title: str,
) -> None:
    first = cases[0].result
    if per_request is not None:
        from app.simulation_runs import write_per_request

        per_request.parent.mkdir(parents=True, exist_ok=True)
        write_per_request(first, per_request)
    if timeline is not None:
        from simulator.timeline import write_timeline

        timeline.parent.mkdir(parents=True, exist_ok=True)
        write_timeline(first, timeline, title=title)
    if plot is not None:
        from app.simulation_page import write_simulation_page

        write_simulation_page(cases, points, plot, title=title)


def _title(written: "ScenarioFile") -> str:
    if written.profile is not None:
        return f"{Path(written.profile.prefix).name} (measured kernels), {written.requests.arrivals} arrivals"
    d = written.deployment
    return f"{d.model} on {d.device}, {d.engine}, {written.requests.arrivals} arrivals"
