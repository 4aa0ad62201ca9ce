"""How does `simulate` say its answer, its keys and a former option on a terminal?

Tables of cases and loads, with intervals, the use of devices and notes; every key of a scenario; the key that
an option of an earlier version has become. Leaves out the answer itself (`app.cli.verbs.simulate`).
"""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.cli.output import Answered
    from app.reports.simulation_page import Case, LoadPoint


# options of earlier versions whose key bears another name; further ones bear their key's
_FORMER = {
    "burst": "requests.burst_s", "cp": "deployment.context_parallel",
    "decode-block": "blocks.block_tokens", "decode-passes": "blocks.passes", "decode-query": "blocks.query_tokens",
    "dp": "deployment.data_parallel", "ep": "deployment.expert_parallel", "ffn-device": "feed_forward.device",
    "ffn-latency": "feed_forward.link_latency_s", "ffn-link": "feed_forward.link_bytes_per_s",
    "ffn-tp": "feed_forward.tensor_parallel", "mixed": "scheduler.prefill_first", "pp": "deployment.pipeline_parallel",
    "profile": "profile.prefix", "tp": "deployment.tensor_parallel",
}  # fmt: skip


def key_of_option(option: str) -> str | None:
    """The key of a scenario that an option which `simulate` does not have stands for; None where none is meant.

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
        sys.stdout.write("Keys of a scenario, for --set KEY=VALUE or as `section: {key: value}` in a file.\n")
        for key in keys:
            default = f"default {dumps(key.default)}" if key.default not in (None, "") else ""
            usual = "needed" if key.required else default
            about = ", ".join(part for part in (f"{key.type} {key.range}".strip(), usual) if part)
            sys.stdout.write(f"\n{key.key}  ({about})\n    {key.meaning}\n")

    body = {"keys": [asdict(key) for key in keys]}
    return deliver(body, name="schema", json=json, out=None, quiet=False, show=show)


def print_cases(cases: "list[Case]", points: "list[LoadPoint]", answer: Mapping[str, Any], title: str) -> None:
    """Print a table of cases, one over load, and what is known beyond them.

    Args:
        cases: of the command, the scenario as asked first.
        points: loads; none: no second table.
        answer: as it goes out as JSON.
        title: of the first table.
    """
    from app.cli.output import print_table, say

    columns = ["case", "TTFT mean s", "p99 s", "TPOT mean ms", "p99 ms", "ITL p99 ms", "tokens/s", "goodput/s",
               "finished", "rejected", "failed", "preempted", "iterations"]  # fmt: skip
    print_table(title, columns, [_cells(case.name, case.metrics) for case in cases])
    if points:
        rows = [_cells(f"{p.name} at {p.rate_per_s:g}/s", p.metrics) for p in points]
        print_table("over load", columns, rows)
    spread = answer.get("metrics_interval")
    if spread is not None:
        low, high = spread["ttft_s"]["mean"] or (0.0, 0.0)
        slow, fast = spread["tpot_s"]["mean"] or (0.0, 0.0)
        say(
            f"80 % over {len(answer['seeds'])} seeds: TTFT mean {low:.4g} to {high:.4g} s, "
            f"TPOT mean {1e3 * slow:.4g} to {1e3 * fast:.4g} ms"
        )
    m = cases[0].metrics
    if m["joules_per_token"] is not None:
        price = m["usd_per_million_tokens"]
        dollars = "" if price is None else f", $ {price:.3g} per million tokens"
        say(
            f"{m['bandwidth_ratio']:.0%} of the bandwidth and {m['compute_ratio']:.0%} of the peak in use, "
            f"{m['joules_per_token']:.3g} J per token{dollars}"
        )
    for note in answer["notes"]:
        say(note)


def _cells(name: str, m: Mapping[str, Any]) -> list[str]:
    from hardware_profiles.units import MILLI

    def number(value: float | None, unit: float = 1.0) -> str:
        return "" if value is None else f"{value / unit:.4g}"

    return [
        name, number(m["ttft_s"]["mean"]), number(m["ttft_s"]["p99"]), number(m["tpot_s"]["mean"], MILLI),
        number(m["tpot_s"]["p99"], MILLI), number(m["itl_s"]["p99"], MILLI), number(m["tokens_per_s"]),
        number(m["goodput_per_s"]), str(m["finished"]), str(m["rejected"]), str(m["failed"]),
        str(m.get("preemptions", 0)), str(m["iterations"]),
    ]  # fmt: skip
