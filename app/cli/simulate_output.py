"""How does `simulate` say its answer on a terminal?

Tables of cases and loads, with intervals, the use of devices and notes. Leaves out the answer itself
(`app.cli.simulate`).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.simulation_page import Case, LoadPoint


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
