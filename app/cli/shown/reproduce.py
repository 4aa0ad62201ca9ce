"""How is a reproduction shown: errors by group, the worst systems with causes, what has no answer,
the noise floor?
"""

from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
_MOST_SYSTEMS = 12
_MOST_REASONS = 10
_MOST_SPREADS = 8
_MOST_ROWS = 24


def print_reproduction(body: Row) -> None:
    """Print the answer of `app.answers.reproduction.reproduction`."""
    from app.render.text import print_table, say

    rows = body["rows"]
    if not rows:
        say("no published number is asked about")
        return
    if len(rows) <= _MOST_ROWS:
        _print_rows(rows)
    _print_groups(body["groups"])
    _print_systems(body["systems"])
    reasons = [
        [str(each["rows"]), each["group"], each["reason"]]
        for each in body["refused"][:_MOST_REASONS]
    ]
    if reasons:
        print_table("not predicted", ["rows", "stated", "reason"], reasons)
    spreads = [
        [
            each["what"],
            each["target"],
            each["device"],
            str(each["sources"]),
            f"{each['lowest']:.3g}",
            f"{each['highest']:.3g}",
            _percent(each["spread_ratio"], "+"),
        ]
        for each in body["noise_floor"][:_MOST_SPREADS]
    ]
    if spreads:
        columns = [
            "what two sources measured",
            "model",
            "device",
            "sources",
            "lowest",
            "highest",
            "apart %",
        ]
        print_table("noise floor", columns, spreads)


def _percent(value: float | None, sign: str = "") -> str:
    return "" if value is None else f"{100.0 * value:{sign}.0f}".replace("-", "\N{MINUS SIGN}")


def _print_rows(rows: Sequence[Row]) -> None:
    from app.answers.numbers import plain
    from app.render.text import print_table

    cells = [
        [
            row["system"],
            row["target"],
            row["quantity"],
            plain(row["published"]),
            plain(row["predicted"]),
            _percent(row["error_ratio"], "+"),
            row["cause"] or row["reason"],
        ]
        for row in rows
    ]
    print_table(
        "published numbers",
        ["system", "model", "quantity", "published", "predicted", "error %", "why"],
        cells,
    )


def _print_groups(groups: Mapping[str, Row]) -> None:
    from app.render.charts.reproduction_figures import parts
    from app.render.text import print_table

    cells = [
        [
            group,
            name,
            str(part["rows"]),
            str(part["predicted"]),
            _percent(part["bias_ratio"], "+"),
            _percent(part["median_error_ratio"]),
            _percent(part["p90_error_ratio"]),
            str(part["over_30_percent"]),
            str(part["without_cause"]),
        ]
        for group, own in groups.items()
        for name, part in parts(own)
    ]
    columns = [
        "stated",
        "numbers",
        "rows",
        "predicted",
        "bias %",
        "median %",
        "p90 %",
        "over 30 %",
        "without cause",
    ]
    print_table("predicted against published, by how much is stated", columns, cells)


def _print_systems(systems: Sequence[Row]) -> None:
    from app.render.text import print_table, say

    far = [each for each in systems if each["median_error_ratio"] > 0.2][:_MOST_SYSTEMS]
    causes = list(dict.fromkeys(each["cause"] for each in far if each["cause"]))
    cells = [
        [
            each["system"],
            each["source"],
            each["group"],
            str(each["predicted"]),
            _percent(each["bias_ratio"], "+"),
            _percent(each["median_error_ratio"]),
            str(causes.index(each["cause"]) + 1) if each["cause"] else "unknown",
        ]
        for each in far
    ]
    if not cells:
        return
    columns = ["system", "source", "stated", "predicted", "bias %", "median %", "cause"]
    print_table("furthest off", columns, cells)
    for number, cause in enumerate(causes, 1):
        say(f"{number}: {cause}")
