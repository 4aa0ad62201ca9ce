"""How `optimize --search full` says on the screen what to run, what comes next, and how sure that
is.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.answers.deployables import Deployable

Json = Mapping[str, Any]
_WIDEST = 100
_FRONT_ROWS = 12


def print_joint(answer: Json, entries: "Sequence[Deployable]", out: Path | None) -> None:
    """Everything that a joint search says on the screen.

    Args:
        answer: its object.
        entries: what every engine loads.
        out: folder of the files, or None.
    """
    from app.answers.deployables import file_lines
    from app.cli.shown.marked import say_marked
    from app.render.charts.joint_words import headline, sure_words
    from app.render.text import say

    for line in (headline(answer), sure_words(answer)):
        say(
            fill(
                line,
                _WIDEST,
                subsequent_indent="  ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        )
    _print_designs(answer)
    _print_front(answer)
    searched = answer["search"]
    say(
        f"{searched['designs']:,} designs, of which {searched['evaluated']:,} evaluated: bounds"
        f" ruled out {searched['pruned_nodes']} of {searched['nodes']} placements of a drafter;"
        f" {searched['simulations']} simulations"
    )
    say_marked(answer["unmet"], ("device", "layout", "dtype", "kv_dtype"))
    if out is not None:
        for line in file_lines(entries, answer["exports"], out):
            say(line)


def _print_designs(answer: Json) -> None:
    from app.answers.numbers import plain, ranged, time_unit
    from app.render.charts.joint_words import marked_words
    from app.render.text import print_table

    rows = [*answer["choices"], *answer["alternatives"]]
    unit = time_unit([row["tpot_s"] for row in rows])

    def cells(row: Json) -> list[str]:
        run, lost = row["simulated"], row["loses_to_winner_probability"]
        seen = run or row
        return [
            marked_words(row),
            plain(row["devices"]),
            plain(row["batch_cap"]),
            plain(row["token_budget"]),
            ranged(row["objective"], row["objective_interval"]),
            unit.show(seen["tpot_s"]),
            unit.show(seen["ttft_s"]),
            "" if run is None else f"{100 * (run['objective_ratio'] - 1):+.0f} %",
            "" if lost is None else f"{100 * lost:.0f} %",
        ]

    columns = [
        "design",
        "devices",
        "cap",
        "budget",
        answer["objective"]["unit"],
        f"TPOT {unit.name}",
        f"TTFT {unit.name}",
        "simulated",
        "loses",
    ]
    caption = (
        "cap: requests in flight of a scheduler; budget: query tokens of an iteration; times are"
        " simulated means "
    )
    caption += (
        "where a design was simulated; simulated: objective against the prediction; loses:"
        " probability that the "
    )
    caption += "first design is better; brackets: 80 % intervals"
    if answer["limits"]["meaning"]:
        caption += f"; limits: {answer['limits']['meaning']}"
    print_table(
        "the best design of each drafter and placement",
        columns,
        [cells(row) for row in rows],
        caption=caption,
    )


def _print_front(answer: Json) -> None:
    from app.answers.numbers import plain
    from app.render.charts.joint_words import design_words
    from app.render.text import print_table

    front = answer["front"]
    step = max(1, -(-len(front) // _FRONT_ROWS))
    rows = [
        [
            plain(row["tokens_per_s_per_user"]),
            plain(row["tokens_per_s_per_device"]),
            design_words(row),
            plain(row["batch_cap"]),
            plain(row["token_budget"]),
        ]
        for row in (*front[:-1:step], *front[-1:])
    ]
    caption = "predicted, of busy replicas whatever the limits; " + (
        f"{len(rows)} of {len(front)} designs, --json has all"
        if len(rows) < len(front)
        else "all designs"
    )
    columns = ["tokens/s per user", "tokens/s per device", "design", "cap", "budget"]
    print_table("front: what no other design beats in both", columns, rows, caption=caption)
