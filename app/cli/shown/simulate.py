"""How does `simulate` say its answer, its keys and a former option on a terminal?

Tables of cases and loads, with intervals, the use of devices and notes; every key of a scenario;
the key that an option of an earlier version has become. Leaves out the answer itself
(`app.cli.verbs.simulate`).
"""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.answers.numbers import TimeUnit
    from app.answers.simulations.cases import LoadPoint, SimulationCase
    from app.cli.output import Answered

_TIMES = (
    ("ttft_s", "mean"),
    ("ttft_s", "p99"),
    ("tpot_s", "mean"),
    ("tpot_s", "p99"),
    ("itl_s", "p99"),
)

# options of earlier versions whose key bears another name; further ones bear their key's
_FORMER = {
    "burst": "requests.burst_s",
    "cp": "deployment.context_parallel",
    "decode-block": "blocks.block_tokens",
    "decode-passes": "blocks.passes",
    "decode-query": "blocks.query_tokens",
    "dp": "deployment.data_parallel",
    "ep": "deployment.expert_parallel",
    "ffn-device": "feed_forward.device",
    "ffn-latency": "feed_forward.link_latency_s",
    "ffn-link": "feed_forward.link_bytes_per_s",
    "ffn-tp": "feed_forward.tensor_parallel",
    "mixed": "scheduler.prefill_first",
    "parallel": "scheduler.max_requests",
    "pp": "deployment.pipeline_parallel",
    "profile": "profile.prefix",
    "tp": "deployment.tensor_parallel",
}


def key_of_option(option: str) -> str | None:
    """The key of a scenario that an option which `simulate` does not have stands for; None where
    none is meant.

    Args:
        option: such as `--token-budget` or `--no-prefix-cache`.

    Example:
        >>> key_of_option("--token-budget")
        'scheduler.token_budget'
    """
    from simulator.scenario.schema import known_keys

    name = option.lstrip("-").removeprefix("no-")
    if name in _FORMER:
        return _FORMER[name]
    field, keys = name.replace("-", "_"), list(known_keys())
    same = [key for key in keys if key.rpartition(".")[2] == field]
    longer = [key for key in keys if key.rpartition(".")[2].startswith(f"{field}_")]
    return next(iter(same + longer), None)


def print_schema(*, json: bool) -> "Answered":
    """Print every key of a scenario with its type, range, default and meaning.

    Args:
        json: as one object instead of lines.
    """
    from dataclasses import asdict
    from json import dumps

    from app.cli.output import deliver
    from simulator.scenario.schema import schema_keys

    keys = schema_keys()

    def show() -> None:
        sys.stdout.write(
            "Keys of a scenario, for --set KEY=VALUE or as `section: {key: value}` in a file.\n"
        )
        for key in keys:
            default = f"default {dumps(key.default)}" if key.default not in (None, "") else ""
            usual = "needed" if key.required else default
            about = ", ".join(part for part in (f"{key.type} {key.range}".strip(), usual) if part)
            sys.stdout.write(f"\n{key.key}  ({about})\n    {key.meaning}\n")

    body = {"keys": [asdict(key) for key in keys]}
    return deliver(body, name="schema", json=json, out=None, quiet=False, show=show)


def print_cases(
    cases: "list[SimulationCase]", points: "list[LoadPoint]", answer: Mapping[str, Any], title: str
) -> None:
    """Print a table of cases, one over load, and what is known beyond them.

    Args:
        cases: of the command, the scenario as asked first.
        points: loads; none: no second table.
        answer: as it goes out as JSON.
        title: of the first table.
    """
    from app.answers.numbers import plain, time_unit
    from app.render.text import print_table, say
    from costmodel.answers.workload import Limits

    named = [(case.name, case.metrics) for case in cases]
    loaded = [(f"{p.name} at {plain(p.rate_per_s)}/s", p.metrics) for p in points]
    unit = time_unit([m[key][level] for _, m in named + loaded for key, level in _TIMES])
    heads = [f"{key[:-2].upper()} {level} {unit.name}" for key, level in _TIMES]
    columns = [
        "case",
        *heads,
        "tokens/s",
        "goodput/s",
        "finished",
        "rejected",
        "failed",
        "preempted",
        "iterations",
    ]
    for heading, metrics in ((title, named), ("over load", loaded)):
        if metrics:
            print_table(heading, columns, _rows(metrics, unit))
    if cases[0].result.idle_passes is not None:
        rows = [_rank_cells(rank, m, unit) for rank, m in cases[0].metrics["by_replica"].items()]
        heads = [f"{key[:-2].upper()} mean {unit.name}" for key in ("ttft_s", "tpot_s")]
        print_table("by rank", ["rank", "requests", *heads, "tokens/s", "busy"], rows)
    spread = answer.get("metrics_interval")
    if spread is not None:
        bounds = [
            f"{key[:-2].upper()} mean {unit.show(low)} to {unit.show(high)} {unit.name}"
            for key in ("ttft_s", "tpot_s")
            for low, high in [spread[key]["mean"] or (0.0, 0.0)]
        ]
        say(f"80 % over {len(answer['seeds'])} seeds: {', '.join(bounds)}")
    slo = answer["inputs"]["slo"]
    if limits := Limits(ttft_s=slo["ttft_s"], tpot_s=slo["tpot_s"]).request_words:
        say(f"goodput: requests with {limits}, each by itself")
    m = cases[0].metrics
    if m["joules_per_token"] is not None:
        price = m["usd_per_million_tokens"]
        dollars = "" if price is None else f", $ {plain(price)} per million tokens"
        say(
            f"{m['bandwidth_ratio']:.0%} of the bandwidth and {m['compute_ratio']:.0%} of the peak"
            f" in use, {plain(m['joules_per_token'])} J per token{dollars}"
        )
    for note in answer["notes"]:
        say(note)


def print_highest_rates(answer: Mapping[str, Any], points: "list[LoadPoint]", title: str) -> None:
    """Print the highest rate of every setting, and what happens at stated rates.

    Args:
        answer: as it goes out as JSON.
        points: at the stated rates; none: no second table.
        title: of the first table.
    """
    from app.answers.numbers import plain, ranged, time_unit
    from app.answers.simulations.highest_rates import MOST_REQUESTS
    from app.render.text import print_table, say

    cells = [
        [
            row["name"],
            (
                ""
                if row["rate_per_s"] is None
                else ranged(row["rate_per_s"], row["rate_per_s_interval"])
            ),
            "" if row["above_per_s"] is None else plain(row["above_per_s"]),
            "" if row["good_ratio"] is None else _share_words(row),
            plain(row["goodput_per_s"]),
            plain(row["tokens_per_s"]),
            plain(row["requests"]),
            plain(row["clock_s"]),
            "grows" if row["is_growing"] else "",
            row["reason"] or "",
        ]
        for row in answer["highest_rates"]
    ]
    heads = [
        "setting",
        "highest rate/s",
        "lost at",
        "within limits",
        "goodput/s",
        "tokens/s",
        "requests",
        "seconds",
        "backlog",
        "no rate",
    ]
    caption = (
        f"{answer['limits']}, of those that arrive after the warm-up, and no backlog grows;"
        " requests and "
    )
    caption += "seconds: of the run at that rate, which is lengthened until it says so, to "
    caption += (
        f"{MOST_REQUESTS:,} requests at most; in brackets behind the share: 80 % from means of"
        " batches"
    )
    if len(answer["seeds"]) > 1:
        caption += f", behind the rate: 80 % of {len(answer['seeds'])} seeds"
    print_table(title, heads, cells, caption=caption)
    if points:
        unit = time_unit([p.metrics[key][level] for p in points for key, level in _TIMES])
        named = [(f"{p.name} at {plain(p.rate_per_s)}/s", p.metrics) for p in points]
        heads = [f"{key[:-2].upper()} {level} {unit.name}" for key, level in _TIMES[:4]]
        rows = [
            [
                name,
                f"{m['good_ratio']:.1%}",
                plain(m["goodput_per_s"]),
                *(unit.show(m[key][level]) for key, level in _TIMES[:4]),
                plain(m["tokens_per_s"]),
                "grows" if m["is_growing"] else "",
            ]
            for name, m in named
        ]
        print_table(
            "over load",
            ["setting", "within limits", "goodput/s", *heads, "tokens/s", "backlog"],
            rows,
        )
    if any(row["is_growing"] for row in answer["highest_rates"]):
        say("where the backlog grows, the recorded requests are too few to tell a rate that lasts")
    for note in answer["notes"]:
        say(note)


def _share_words(row: Mapping[str, Any]) -> str:
    low, high = row["good_ratio_interval"]
    return f"{row['good_ratio']:.1%} [{low:.1%}–{high:.1%}]"


def _rank_cells(rank: str, m: Mapping[str, Any], unit: "TimeUnit") -> list[str]:
    from app.answers.numbers import plain

    means = [unit.show(m[key]["mean"]) for key in ("ttft_s", "tpot_s")]
    busy = "" if m["busy_ratio"] is None else f"{m['busy_ratio']:.0%}"
    return [rank, plain(m["requests"]), *means, plain(m["tokens_per_s"]), busy]


def _rows(named: "list[tuple[str, Mapping[str, Any]]]", unit: "TimeUnit") -> list[list[str]]:
    """Cells of a table; what never happened is left empty, so that its column goes, and iterations
    make room for it.
    """
    from app.answers.numbers import plain

    rare = ("rejected", "failed", "preemptions")
    happened = any(m.get(key) for _, m in named for key in rare)
    return [
        [
            name,
            *(unit.show(m[key][level]) for key, level in _TIMES),
            plain(m["tokens_per_s"]),
            plain(m["goodput_per_s"]),
            plain(m["finished"]),
            *(plain(m.get(key) or None) for key in rare),
            "" if happened else plain(m["iterations"]),
        ]
        for name, m in named
    ]
