"""How does `simulate --policies` say its answer on a terminal?"""

from collections.abc import Mapping, Sequence
from typing import Any


def print_policies(
    rows: Sequence[Mapping[str, Any]], answer: Mapping[str, Any], title: str
) -> None:
    """Print a table of policies, what the two bounds leave to win, and our schedule.

    Args:
        rows: as `app.answers.simulations.length_policies.rows_of` gives them.
        answer: as it goes out as JSON.
        title: of the table.
    """
    from app.answers.numbers import plain, time_unit
    from app.render.text import print_table, say

    unit = time_unit([row["tpot_s"] for row in rows])
    heads = [
        "policy",
        "tokens/s",
        f"TPOT {unit.name}",
        "goodput/s",
        "tokens/step",
        "drafted/step",
        "changes",
    ]
    columns = [*heads, "regret", "of expected", "of oracle"]
    cells = [
        [
            row["name"],
            plain(row["tokens_per_s"]),
            unit.show(row["tpot_s"]),
            plain(row["goodput_per_s"]),
            plain(row["tokens_per_step"]),
            plain(row["drafted_per_step"]),
            "" if row["length_changes"] is None else plain(row["length_changes"]),
            "" if row["regret_ratio"] is None else f"{row['regret_ratio']:.1%}",
            *(_share(row.get(f"to_{bound}")) for bound in ("expected", "oracle")),
        ]
        for row in rows
    ]
    caption = f"ranked by {answer['by']}"
    if len(answer["seeds"]) > 1:
        caption += f"; means over {len(answer['seeds'])} seeds, in brackets 80 % of them"
    print_table(title, columns, cells, caption=caption)
    ranges = ", ".join(f"{first}-{last}: {k}" for first, last, k in answer["schedule"])
    say(f"ours, draft tokens by batch: {ranges}")
    for note in answer["notes"]:
        say(note)


def _share(ratio: Mapping[str, Any] | None) -> str:
    if ratio is None:
        return ""
    spread = ratio["interval"]
    return f"{ratio['ratio']:.1%}" + (
        "" if spread is None else f" [{spread[0]:.1%}, {spread[1]:.1%}]"
    )
