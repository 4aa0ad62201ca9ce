"""`capacity`: devices, watts and dollars for a load within latency limits, with and without a
method.
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from app.answers.cells import LISTED, cells_of, marked, require_one, runnable
from app.cli.output import Answered
from app.cli.shown.marked import mark_words, say_marked
from app.cli.verbs.capacity_joint import full_plans, is_full
from app.questions.field import Field, Group
from app.questions.fields import (
    Csv,
    Data,
    DraftShapes,
    Expert,
    Json,
    Model,
    Out,
    Pipeline,
    Quiet,
    Seed,
    SloTpot,
    SloTtft,
    Trace,
    TreeFile,
)
from app.questions.groups import AcceptanceOptions, DraftingOptions, FormatOptions
from app.questions.resolve.accepted import (
    as_given,
    draft_lengths,
    lengths_for,
    numbers_words,
    one_source,
)
from app.questions.resolve.asked import asked, with_options
from app.questions.values import method_slug, milliseconds, whole_numbers

if TYPE_CHECKING:
    from costmodel.answers.capacity import CapacityPlan
    from costmodel.answers.estimate import Setting
    from costmodel.answers.workload import Limits, Load
    from costmodel.configuration import DecodingConfiguration
    from costmodel.laws.acceptance import Acceptance
    from costmodel.optimizers.drafters.sources import Source

MOST_DEVICES = 1024  # of one replica
_NAMED = ("model", "device", "engine", "tp", "method", "draft", "draft_tokens", "devices")
_SEARCHED = ("layout", "dtype", "kv_dtype", "batch_cap", "token_budget")


def capacity(
    model: Model,
    formats: FormatOptions,
    drafting: DraftingOptions,
    accepted: AcceptanceOptions,
    rate: Annotated[float | None, Field("Requests per second.", Group.WORKLOAD)] = None,
    prompt: Annotated[
        float | None,
        Field(
            "Mean prompt length, tokens.",
            Group.WORKLOAD,
            spelled="--prompt-tokens",
            also="--prompt",
        ),
    ] = None,
    output: Annotated[
        float | None,
        Field(
            "Mean output length, tokens.",
            Group.WORKLOAD,
            spelled="--output-tokens",
            also="--output",
        ),
    ] = None,
    requests: Annotated[
        Path | None,
        Field("Recorded requests (.parquet) instead of lengths.", Group.WORKLOAD),
    ] = None,
    slo_ttft: SloTtft = None,
    slo_tpot: SloTpot = None,
    device: Annotated[
        list[str] | None,
        Field(
            "Device name or file; several by commas, or repeated. Default: h100-sxm.",
            Group.HARDWARE,
        ),
    ] = None,
    tp: Annotated[
        str, Field("Devices that share every layer, comma-separated.", Group.HARDWARE)
    ] = "1",
    pp: Pipeline = 1,
    ep: Expert = 1,
    dp: Data = 1,
    method: Annotated[str, Field("Method to compare with plain decoding.", Group.DRAFTING)] = "",
    trace: Trace = None,
    tree: TreeFile = None,
    draft_tokens: Annotated[
        str | None,
        Field("Draft tokens K to choose among, comma-separated. Default: 1,3,5.", Group.DRAFTING),
    ] = None,
    shape: DraftShapes = None,
    search: Annotated[
        str,
        Field(
            (
                "named: the --tp and method that are named; full: layouts, formats, drafters, batch"
                " caps and token "
                "budgets are searched for the cheapest, as `optimize --search full` does."
            ),
            Group.SEARCH,
        ),
    ] = "named",
    most_devices: Annotated[
        int,
        Field(
            "With --search full: most devices of a kind.",
            Group.HARDWARE,
            spelled="--devices",
            least=1,
            most=MOST_DEVICES,
        ),
    ] = MOST_DEVICES,
    utilisation: Annotated[
        float,
        Field("Most that a replica is sent, as a share of what it could finish.", Group.LIMITS),
    ] = 0.8,
    out: Out = None,
    csv: Csv = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """Plan replicas for R requests per second: memory, latency limits, power and price decide."""
    from app.answers.estimates import acceptance
    from app.answers.explanations import assumptions
    from app.cli.output import deliver
    from app.questions.resolve.configurations import compared, named_shapes
    from app.render.text import say
    from costmodel.answers.workload import Limits
    from hardware_profiles.errors import InputError

    load = _load(rate, prompt, output, requests, full=is_full(search))
    slo = Limits(
        ttft_s=milliseconds(slo_ttft, "--slo-ttft"), tpot_s=milliseconds(slo_tpot, "--slo-tpot")
    )
    if not 0.0 < utilisation < 1.0:
        raise InputError(
            "must lie between 0 and 1, both excluded", key="--utilisation", value=utilisation
        )
    devices = ",".join(device or ["h100-sxm"])
    cells = cells_of({"model": model, "engine": formats.engine, "device": devices})
    asked_lengths, slug = draft_lengths(draft_tokens, least=1), method_slug(method, "--method")
    plain = slug == "plain-decoding"
    named = "" if plain else slug
    source = one_source(
        accepted, trace, method=named, model=cells[0]["model"], lengths=asked_lengths or ()
    )
    lengths = lengths_for(source, asked_lengths, [1, 3, 5])
    shapes = named_shapes(shape, {"--draft-tokens": draft_tokens, "--tree": tree})
    if is_full(search) and tree is not None:
        raise InputError(f"say --shape tree:{tree} with --search full", key="--tree")
    if source is None and slug and not plain:
        rule = "a method needs a --trace, an --acceptance, --tokens-per-step or --drafter"
        raise InputError(rule, key="--method", value=slug)
    drafted: list[Acceptance] = []
    if source is not None and not plain:
        slug, drafted = (
            source.method,
            [each for each in compared(source, lengths, tree, seed, shapes) if each.draft_tokens],
        )
    sizes = whole_numbers(tp, "--tp", least=1, most=MOST_DEVICES)
    spread = {"pp": pp, "ep": ep, "dp": dp}
    base = asked(None, {**asdict(formats), **cells[0], **spread})
    if is_full(search):
        given = {
            **asdict(formats),
            **asdict(drafting),
            "model": model,
            "device": devices,
            **spread,
            "seed": seed,
            "tp": sizes[0],
            "method": slug,
        }
        rows, settings = full_plans(
            given, source, asked_lengths, load, slo, utilisation, most_devices, shapes
        )
    else:
        cases = _cases(base, cells, sizes, slug, drafted, _drafter(base, drafting, source), load)
        rows = [
            _row(one, setting, found, load, slo, utilisation, seed) for one, setting, found in cases
        ]
        settings = [setting for _, setting, _ in cases if not isinstance(setting, str)]
    listed = {name: ",".join(dict.fromkeys(cell[name] for cell in cells)) for name in LISTED}
    inputs = {
        **listed,
        "rate": load.requests_per_s,
        "prompt": load.mean_prompt_tokens,
        "output": load.output_tokens,
        "requests": str(requests) if requests else None,
        "slo_ttft_ms": slo_ttft,
        "slo_tpot_ms": slo_tpot,
        "limits": slo.words or None,
        "tp": tp,
        **spread,
        "method": slug or "plain-decoding",
        "draft": drafting.draft,
        "trace": str(trace) if trace else None,
        "acceptance": as_given(accepted.acceptance),
        "tokens_per_step": accepted.tokens_per_step,
        "drafter": accepted.drafter or [],
        "match_rate": accepted.match_rate,
        "draft_tokens": None if shapes else ",".join(map(str, lengths)),
        "tree": str(tree) if tree else None,
        "shape": shape,
        "utilisation": utilisation,
        "dtype": formats.dtype,
        "set": formats.overrides or [],
        "seed": seed,
        "search": search,
    }
    known = {"acceptance": acceptance(source, drafted)} if drafted and source is not None else {}
    best = _best(rows, ranked=is_full(search))
    answer = {
        "inputs": inputs,
        "plans": rows,
        "best": best,
        "assumptions": assumptions(settings),
        **known,
    }

    def show() -> None:
        _print(answer)
        said = [known["acceptance"].remark] if known else []
        for line in (*filter(None, said), *numbers_words(source if drafted else None, drafted)):
            say(line)

    delivered = deliver(
        answer, name="capacity", json=json, out=out, quiet=quiet, show=show, csv=csv, rows=["plans"]
    )
    require_one(rows)
    return delivered


def _drafter(
    base: "DecodingConfiguration", drafting: DraftingOptions, source: "Source | None"
) -> dict[str, Any]:
    """What drafts, by fields of a configuration: as options say, else as what is accepted does."""
    from costmodel.optimizers.drafters.competing import carried, competing

    stated = {name: value for name, value in asdict(drafting).items() if value is not None}
    if source is None:
        return {}
    asked_of = with_options(base, stated)
    (source,) = competing(asked_of, [source])
    return {"exit_layers": asked_of.exit_layers, **carried(source)}


def _load(
    rate: float | None,
    prompt: float | None,
    output: float | None,
    requests: Path | None,
    *,
    full: bool,
) -> "Load":
    from costmodel.answers.workload import load_of_means, load_of_requests
    from costmodel.optimizers.joint.space import PROMPTS
    from hardware_profiles.errors import InputError
    from traces.storage.acceptance_file import read_requests

    if requests is not None:
        if prompt is not None or output is not None:
            raise InputError(
                "--requests has its own lengths; leave out --prompt-tokens and --output-tokens"
            )
        lengths = {"prompts": PROMPTS} if full else {}
        return load_of_requests(read_requests(requests), requests_per_s=rate, **lengths)
    if rate is None or prompt is None or output is None:
        raise InputError(
            "--rate, --prompt-tokens and --output-tokens are needed, or --requests FILE"
        )
    return load_of_means(requests_per_s=rate, prompt_tokens=prompt, output_tokens=output)


def _cases(
    base: "DecodingConfiguration",
    cells: "list[dict[str, str]]",
    sizes: list[int],
    slug: str,
    drafted: "list[Acceptance]",
    drafter: dict[str, Any],
    load: "Load",
) -> "list[tuple[DecodingConfiguration, Setting | str, list[Acceptance]]]":
    """Every cell at every number of tensor devices, plain and with the method; the reason of one
    that cannot run.
    """
    from dataclasses import replace

    from costmodel.answers.positions import require_positions
    from costmodel.answers.settings import build_setting
    from costmodel.laws.acceptance import geometric

    def built(one: "DecodingConfiguration") -> "Setting":
        setting = build_setting(one)
        require_positions(setting.target, load.longest_context, "prompt and output")
        return setting

    methods: list[tuple[dict[str, Any], list[Acceptance]]] = [
        ({"method": "plain-decoding"}, [geometric(0.0, 0)])
    ]
    if drafted and slug != "plain-decoding":
        methods.append(({"method": slug, **drafter}, drafted))

    keyed = [(cell, size, at) for cell in cells for size in sizes for at in range(len(methods))]
    asked = [
        replace(with_options(base, {**cell, "tp": size}), **methods[at][0])
        for cell, size, at in keyed
    ]
    made = runnable(asked, built)
    return [
        (one, setting, methods[at][1])
        for (one, setting), (_, _, at) in zip(made, keyed, strict=True)
    ]


def _row(
    asked: "DecodingConfiguration",
    setting: "Setting | str",
    acceptances: "list[Acceptance]",
    load: "Load",
    slo: "Limits",
    utilisation: float,
    seed: int,
) -> dict[str, Any]:
    """A plan, or the mark of a cell that holds no request or misses the limits."""
    import numpy as np

    from app.answers.explanations import capacity_plan
    from costmodel.answers.capacity import plan
    from hardware_profiles.errors import InfeasibleError

    where = asked.deployment
    row = {
        "model": where.model,
        "device": where.device,
        "engine": where.engine,
        "tp": where.tensor_parallel,
        "method": asked.method,
    }
    if isinstance(setting, str):
        return row | {"feasible": False, "reason": setting}

    def planned(at: "Setting") -> "CapacityPlan":
        return plan(
            at,
            acceptances,
            load,
            slo,
            generator=np.random.default_rng(seed),
            utilisation=utilisation,
        )

    def holds(changed: "DecodingConfiguration", at: "Setting", batch: int, context: int) -> bool:
        try:
            return bool(planned(at))
        except InfeasibleError:
            return False

    try:
        return row | {"feasible": True, "reason": None} | capacity_plan(planned(setting))
    except InfeasibleError as error:
        misses = "limits" if str(error).startswith("SLO") else "memory"
        nearest = marked(
            asked, acceptances[0], str(error), batch=1, context=0, holds=holds, misses=misses
        )
        return row | nearest


def _best(rows: list[dict[str, Any]], *, ranked: bool) -> dict[str, Any] | None:
    """The cheapest plan; of equal ones the first of a search, else that of the fewest watts, as
    without a price.
    """
    able = [row for row in rows if row["feasible"]]
    if not able:
        return None
    priced = all(row["usd_per_hour"] is not None for row in able)
    by_rank = ranked and priced
    first = min(
        able,
        key=lambda row: (row["usd_per_hour"] if priced else 0.0, 0.0 if by_rank else row["watts"]),
    )
    return {
        "by": "usd_per_hour" if priced else "watts",
        **{key: first[key] for key in (*_NAMED, *_SEARCHED) if key in first},
    }


def _print(answer: dict[str, Any]) -> None:
    from app.answers.numbers import fixed, plain, time_unit
    from app.render.text import print_table, say

    inputs, best, plans = answer["inputs"], answer["best"], answer["plans"]
    unit = time_unit(
        [seconds for row in plans if row["feasible"] for seconds in (row["ttft_s"], row["tpot_s"])]
    )
    names = [name for name in LISTED if "," in inputs[name]]

    def cells(row: dict[str, Any]) -> list[str]:
        placed = f"{row['layout']} {row['dtype']}" if "layout" in row else str(row["tp"])
        first = [*(row[name] for name in names), placed, row["method"]]
        if not row["feasible"]:
            return [*first, "", mark_words(row), *[""] * 7]
        low, high = row["replicas_interval"]
        span = f"{plain(low)}–{plain(high)}" if high > low else plain(low)
        return [
            *first,
            row["draft"],
            f"{plain(row['batch'])} ({row['binds']})",
            f"{plain(row['replicas'])} [{span}]",
            "" if names else plain(row["devices"]),
            unit.show(row["ttft_s"]),
            unit.show(row["tpot_s"]),
            "" if names else plain(row["watts"]),
            "?" if row["usd_per_hour"] is None else fixed(row["usd_per_hour"], 2),
            "?" if row["usd_per_hour"] is None else fixed(row["usd_per_million_tokens"], 3),
        ]

    columns = [
        *names,
        "tp",
        "method",
        "draft",
        "batch (bound)",
        "replicas",
        "devices",
        f"TTFT {unit.name}",
        f"TPOT {unit.name}",
        "W",
        "$/h",
        "$/Mtoken",
    ]
    where = ", ".join(inputs[name] for name in LISTED if name not in names)
    spread = ", ".join(f"{name} {inputs[name]}" for name in ("pp", "ep", "dp") if inputs[name] > 1)
    title = (
        f"{plain(inputs['rate'])} requests/s of {plain(inputs['prompt'])} +"
        f" {plain(inputs['output'])} tokens: "
    )
    title += ", ".join(filter(None, (where, spread)))
    caption = "means at the load" + (f", limits: {inputs['limits']}" if inputs["limits"] else "")
    caption += (
        f"; a replica is sent at most {100 * inputs['utilisation']:.0f} % of what it could finish; "
    )
    caption += "brackets: 80 % intervals; ?: price unknown"
    print_table(title, columns, [cells(row) for row in plans], caption=caption, once=["tp"])
    say_marked(plans, [*names, *(["tp"] if "," in inputs["tp"] else []), "method"])
    if best is None:
        return
    word = "cheapest" if best["by"] == "usd_per_hour" else "fewest watts (a price is unknown)"
    which = "".join(f"{best[name]}, " for name in names if name != "device")
    say(
        f"{word}: {which}{best['devices']} x {best['device']}, tp {best['tp']}, {best['method']}, "
        f"{best['draft']}"
    )
