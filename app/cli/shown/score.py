"""How is a score shown: errors by slice, what stands beside, through which parts, and what has no
answer?
"""

from collections.abc import Mapping, Sequence
from typing import Any

from app.answers.scoring.measured import QUANTITIES

Row = Mapping[str, Any]
_WORDS = {"tpot": "time per output token", "ttft": "time to first token"}
_MOST_VALUES = 8  # of a slice on the screen; --json and --csv have all
_MOST_REASONS = 8


def print_score(body: Row) -> None:
    """Print the answer of `app.answers.scoring.score.scored`."""
    from app.render.text import print_table, say

    overall = body["overall"]
    say(
        f"{body['table_rows']} rows hold {overall['measurements']} measurements, of which"
        f" {overall['answered']} are answered"
    )
    for quantity in QUANTITIES:
        if overall[quantity] is not None:
            _print_slices(body["slices"], quantity)
    if body["left_out"]:
        names = list(body["left_out"][0]["constants"])
        cells = [
            [row["left_out"], *(f"{row['constants'][name]:.3g}" for name in names)]
            for row in body["left_out"]
        ]
        print_table(
            "constants fitted without",
            ["left out", *names],
            cells,
            caption="baseline below: as shipped",
        )
    if body["common"]:
        for quantity in QUANTITIES:
            _print_common(body["common"], quantity)
    for quantity in QUANTITIES:
        _say_parts([row for row in body["parts"] if row["quantity"] == quantity], quantity)
        _print_gathered([row for row in body["gathered"] if row["quantity"] == quantity], quantity)
    for key, counted, title in (
        ("refused", "measurements", "not answered"),
        ("unusable", "rows", "nothing measured"),
    ):
        if body[key]:
            cells = [[str(row[counted]), row["reason"]] for row in body[key][:_MOST_REASONS]]
            print_table(title, [counted, "reason"], cells)


def _percent(value: float | None, sign: str = "") -> str:
    return "" if value is None else f"{100.0 * value:{sign}.1f}".replace("-", "\N{MINUS SIGN}")


def _errors(row: Row) -> list[str]:
    keys = ("median_error_ratio", "mean_error_ratio", "p90_error_ratio")
    return [_percent(row["bias_ratio"], "+"), *(_percent(row[key]) for key in keys)]


def _seen(rows: Sequence[Row]) -> list[Row]:
    """Slices of several values, the first values of each."""
    values: dict[str, list[Row]] = {}
    for row in rows:
        values.setdefault(row["slice"], []).append(row)
    return [
        row
        for name, own in values.items()
        if len(own) > 1 or name == "all"
        for row in own[:_MOST_VALUES]
    ]


def _print_slices(rows: Sequence[Row], quantity: str) -> None:
    from app.render.text import print_table

    cells = [
        [
            row["slice"] if row["value"] != "all" else "",
            row["value"],
            str(row["measurements"]),
            str(row[quantity]["measurements"]),
            *_errors(row[quantity]),
            _percent(row[quantity]["coverage_ratio"]),
            "" if row[quantity]["width_ratio"] is None else f"{row[quantity]['width_ratio']:.2f}",
        ]
        for row in _seen(rows)
        if row[quantity]
    ]
    columns = [
        "slice",
        "value",
        "n",
        "compared",
        "bias %",
        "median %",
        "mean %",
        "p90 %",
        "in 80 %",
        "width",
    ]
    caption = (
        "bias: median of predicted / measured - 1; in 80 %: inside the interval; width: its ends'"
        " ratio"
    )
    print_table(f"errors in {_WORDS[quantity]}", columns, cells, caption=caption)


def _print_common(rows: Sequence[Row], quantity: str) -> None:
    from app.render.text import print_table

    cells = [
        [
            row["slice"] if row["value"] != "all" else "",
            row["value"],
            str(row["baseline"][quantity]["measurements"]),
            *_errors(row[quantity]),
            *_errors(row["baseline"][quantity]),
        ]
        for row in _seen(rows)
        if row[quantity] and row["baseline"][quantity]
    ]
    columns = ["slice", "value", "n", "bias %", "median %", "mean %", "p90 %"]
    theirs = [f"baseline {name}" for name in columns[3:]]
    print_table(
        f"{_WORDS[quantity]} beside the baseline",
        [*columns, *theirs],
        cells,
        caption="measurements that both answer",
    )


def _say_parts(rows: Sequence[Row], quantity: str) -> None:
    from app.render.text import print_table

    cells = [
        [
            row["part"],
            _percent(row["share_ratio"]),
            _percent(row["worst_share_ratio"]),
            f"{row['factor']:.2f}",
            _percent(row["median_error_then_ratio"]),
        ]
        for row in rows
        if max(row["share_ratio"], row["worst_share_ratio"]) >= 0.01
    ]
    if cells:
        columns = ["part", "share %", "of the worst tenth %", "best factor", "median % with it"]
        caption = (
            "best factor: on this part alone, everywhere; the median is"
            f" {_percent(rows[0]['median_error_ratio'])} %"
        )
        print_table(f"parts of the {_WORDS[quantity]}", columns, cells, caption=caption)


def _print_gathered(rows: Sequence[Row], quantity: str) -> None:
    from app.render.text import print_table

    cells = [
        [
            row["slice"],
            row["value"],
            _percent(row["count_ratio"]),
            _percent(row["error_share_ratio"]),
            _percent(row["bias_ratio"], "+"),
            "" if row["part"] is None else f"{row['part']} x {row['factor']:.2f}",
        ]
        for row in rows
    ]
    if cells:
        columns = [
            "slice",
            "value",
            "of measurements %",
            "of the error %",
            "bias %",
            "most helpful",
        ]
        print_table(f"where errors in {_WORDS[quantity]} gather", columns, cells)
