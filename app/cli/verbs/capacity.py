"""`capacity`: devices, watts and dollars for a load within latency limits, with and without a method."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.asked import asked
from app.cli.option_groups import Drafting, Formats, grouped
from app.cli.options import (
    MOST_DRAFT_TOKENS,
    Json,
    MatchRate,
    Model,
    Out,
    Quiet,
    Seed,
    Trace,
    TreeFile,
    byte_count,
    method_slug,
    milliseconds,
    ratio,
    whole_numbers,
)
from app.cli.output import Answered

if TYPE_CHECKING:
    from costmodel.answers.workload import Load, Slo
    from costmodel.configuration import DecodingConfiguration
    from costmodel.laws.acceptance import Acceptance

MOST_DEVICES = 1024  # of one replica


@grouped
def capacity(
    model: Model,
    formats: Formats,
    drafting: Drafting,
    rate: Annotated[float | None, typer.Option("--rate", help="Requests per second.")] = None,
    prompt: Annotated[float | None, typer.Option("--prompt", help="Mean prompt length, tokens.")] = None,
    output: Annotated[float | None, typer.Option("--output", help="Mean output length, tokens.")] = None,
    requests: Annotated[
        Path | None, typer.Option("--requests", help="Recorded requests (.parquet) instead of lengths.")
    ] = None,
    slo_ttft: Annotated[float | None, typer.Option("--slo-ttft", help="Longest mean time to first token, ms.")] = None,
    slo_tpot: Annotated[float | None, typer.Option("--slo-tpot", help="Longest mean time per token, ms.")] = None,
    device: Annotated[
        list[str] | None, typer.Option("--device", help="Device name or file; repeat to compare. Default: h100-sxm.")
    ] = None,
    tp: Annotated[str, typer.Option("--tp", help="Devices per replica, comma-separated.")] = "1",
    method: Annotated[str, typer.Option("--method", help="Method to compare with plain decoding.")] = "",
    trace: Trace = None,
    acceptance: Annotated[
        float | None, typer.Option("--acceptance", help="Acceptance rate of one token instead of a trace.")
    ] = None,
    tree: TreeFile = None,
    draft_tokens: Annotated[
        str, typer.Option("--draft-tokens", help="Draft tokens K to choose among, comma-separated.")
    ] = "1,3,5",
    match_rate: MatchRate = None,
    utilisation: Annotated[
        float, typer.Option("--utilisation", help="Share of a replica's highest rate to plan with.")
    ] = 0.8,
    out: Out = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """Plan replicas for R requests per second: memory, latency limits, power and price decide."""
    from app.answers.explanations import assumptions
    from app.cli.configurations import recorded_method, replayed, stated
    from app.cli.output import deliver
    from costmodel.answers.settings import with_match_rate
    from costmodel.answers.workload import Slo
    from costmodel.engine_library import load_engine
    from hardware_profiles.errors import InputError
    from hardware_profiles.loader import load_device
    from traces.library import read_trace

    if trace is not None and acceptance is not None:
        raise InputError("--trace and --acceptance exclude each other")
    load = _load(rate, prompt, output, requests)
    slo = Slo(ttft_s=milliseconds(slo_ttft, "--slo-ttft"), tpot_s=milliseconds(slo_tpot, "--slo-tpot"))
    if not 0.0 < utilisation < 1.0:
        raise InputError("must lie between 0 and 1, both excluded", key="--utilisation", value=utilisation)
    known = load_engine(formats.engine)
    recorded = read_trace(trace) if trace else None
    if recorded is not None:
        recorded.require(1, "a plan")
    share, kept_rate = ratio(match_rate, "--match-rate"), ratio(acceptance, "--acceptance")
    slug = method_slug(method, "--method")
    if not slug and (recorded is not None or kept_rate is not None):
        slug = recorded_method(recorded)
    lengths = whole_numbers(draft_tokens, "--draft-tokens", least=1, most=MOST_DRAFT_TOKENS)
    drafted: list[Acceptance] = []
    if recorded is not None:
        drafted = replayed(with_match_rate(recorded, slug, share), slug, lengths, tree, seed)
    elif kept_rate is not None:
        drafted = stated(kept_rate, lengths, tree, share, method=slug)
    elif slug not in ("", "plain-decoding"):
        raise InputError("a method needs a --trace or an --acceptance", key="--method", value=slug)
    names = list(dict.fromkeys(device or ["h100-sxm"]))
    devices = [load_device(name, formats.overrides or ()) for name in names]
    sizes = whole_numbers(tp, "--tp", least=1, most=MOST_DEVICES)
    base = asked(None, {**asdict(formats), "model": model, "device": names[0]})
    drafter = {
        "draft_model": drafting.draft, "exit_layers": drafting.exit_layer, "draft_passes": drafting.draft_passes,
        "draft_bytes": byte_count(drafting.draft_bytes, "--draft-bytes"),
    }  # fmt: skip
    cases = _cases(base, names, sizes, slug, drafted, drafter)
    rows = [_row(asked, found, load, slo, utilisation, seed) for asked, found in cases]
    inputs = {
        "model": model, "rate": load.requests_per_s, "prompt": load.mean_prompt_tokens, "output": load.output_tokens,
        "requests": str(requests) if requests else None, "slo_ttft_ms": slo_ttft, "slo_tpot_ms": slo_tpot,
        "device": names, "tp": tp, "method": slug or "plain-decoding", "draft": drafting.draft,
        "trace": str(trace) if trace else None, "acceptance": acceptance, "match_rate": match_rate,
        "draft_tokens": draft_tokens, "tree": str(tree) if tree else None, "utilisation": utilisation,
        "engine": formats.engine, "dtype": formats.dtype, "set": formats.overrides or [], "seed": seed,
    }  # fmt: skip
    answer = {"inputs": inputs, "plans": rows, "best": _best(rows), "assumptions": assumptions(known, devices)}
    _require_one(rows)
    return deliver(answer, name="capacity", json=json, out=out, quiet=quiet, show=lambda: _print(answer))


def _load(rate: float | None, prompt: float | None, output: float | None, requests: Path | None) -> "Load":
    from costmodel.answers.workload import load_of_means, load_of_requests
    from hardware_profiles.errors import InputError
    from traces.storage.acceptance_file import read_requests

    if requests is not None:
        if prompt is not None or output is not None:
            raise InputError("--requests has its own lengths; leave out --prompt and --output")
        return load_of_requests(read_requests(requests), requests_per_s=rate)
    if rate is None or prompt is None or output is None:
        raise InputError("--rate, --prompt and --output are needed, or --requests FILE")
    return load_of_means(requests_per_s=rate, prompt_tokens=prompt, output_tokens=output)


def _cases(
    base: "DecodingConfiguration",
    names: list[str],
    sizes: list[int],
    slug: str,
    drafted: "list[Acceptance]",
    drafter: dict[str, Any],
) -> "list[tuple[DecodingConfiguration, list[Acceptance]]]":
    """Every device and number of devices, plain and with the method."""
    from dataclasses import replace

    from costmodel.laws.acceptance import geometric

    plain, cases = [geometric(0.0, 0)], []
    for name in names:
        for size in sizes:
            at = replace(base, deployment=replace(base.deployment, device=name, tensor_parallel=size))
            cases.append((replace(at, method="plain-decoding"), plain))
            if drafted and slug != "plain-decoding":
                cases.append((replace(at, method=slug, **drafter), drafted))
    return cases


def _row(
    asked: "DecodingConfiguration",
    acceptances: "list[Acceptance]",
    load: "Load",
    slo: "Slo",
    utilisation: float,
    seed: int,
) -> dict[str, Any]:
    import numpy as np

    from app.answers.explanations import capacity_plan, refused_plan
    from costmodel.answers.capacity import plan
    from costmodel.answers.settings import build_setting
    from hardware_profiles.errors import InfeasibleError

    setting = build_setting(asked)
    try:
        made = plan(setting, acceptances, load, slo, generator=np.random.default_rng(seed), utilisation=utilisation)
    except InfeasibleError as error:
        name, size = setting.device.name, asked.deployment.tensor_parallel
        return refused_plan(device=name, tp=size, method=asked.method, reason=str(error))
    return capacity_plan(made, method=asked.method)


def _best(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The cheapest plan; of equal ones, or where a price is unknown, the one of the fewest watts."""
    able = [row for row in rows if row["feasible"]]
    if not able:
        return None
    priced = all(row["usd_per_hour"] is not None for row in able)
    first = min(able, key=lambda row: (row["usd_per_hour"] if priced else 0.0, row["watts"]))
    return {
        "by": "usd_per_hour" if priced else "watts",
        **{key: first[key] for key in ("device", "tp", "method", "draft_tokens", "devices")},
    }


def _require_one(rows: list[dict[str, Any]]) -> None:
    from hardware_profiles.errors import InfeasibleError

    if not any(row["feasible"] for row in rows):
        reasons = list(dict.fromkeys(row["reason"] for row in rows))
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        raise InfeasibleError(f"{reasons[0]}{more}")


def _print(answer: dict[str, Any]) -> None:
    from app.cli.output import print_table, say
    from hardware_profiles.units import MILLI

    def cells(row: dict[str, Any]) -> list[str]:
        first = [row["device"], str(row["tp"]), row["method"]]
        if not row["feasible"]:
            return [*first, "cannot", *[""] * 9]
        price = ["?", "?"]
        if row["usd_per_hour"] is not None:
            price = [f"{row['usd_per_hour']:.2f}", f"{row['usd_per_million_tokens']:.3f}"]
        low, high = row["replicas_interval"]
        return [
            *first, str(row["draft_tokens"]), f"{row['batch']} ({row['binds']})",
            f"{row['replicas']} [{low}, {high}]", str(row["devices"]), f"{100 * row['utilisation_ratio']:.0f}",
            f"{row['ttft_s'] / MILLI:.0f}", f"{row['tpot_s'] / MILLI:.1f}", f"{row['watts']:.0f}",
            f"{row['joules_per_token']:.2f}", " / ".join(price),
        ]  # fmt: skip

    inputs, best = answer["inputs"], answer["best"]
    columns = ["device", "tp", "method", "K", "batch (bound by)", "replicas", "devices", "used %", "TTFT ms", "TPOT ms",
               "W", "J/token", "$/h, $/Mtoken"]  # fmt: skip
    title = (
        f"{inputs['model']}, {inputs['rate']:g} requests/s of {inputs['prompt']:.0f} + {inputs['output']:.0f} tokens, "
        f"{inputs['engine']}"
    )
    caption = "means at the load; replicas planned at "
    caption += f"{100 * inputs['utilisation']:.0f} % of their highest rate; brackets: 80 % intervals; ?: price unknown"
    print_table(title, columns, [cells(row) for row in answer["plans"]], caption=caption)
    for row in answer["plans"]:
        if not row["feasible"]:
            say(f"{row['device']} x {row['tp']}, {row['method']}: {row['reason']}")
    word = "cheapest" if best["by"] == "usd_per_hour" else "fewest watts (a price is unknown)"
    say(f"{word}: {best['devices']} x {best['device']}, tp {best['tp']}, {best['method']}, K={best['draft_tokens']}")
