"""How are predictions shown: one table of all cells, what a plan adds, and explanations?"""

from collections.abc import Mapping, Sequence
from typing import Any

from app.answers.cells import mark_words, several
from app.render.numbers import LOPSIDED, TimeUnit, fixed, lopsided, plain, ranged, time_unit

Row = Mapping[str, Any]


def print_predictions(rows: Sequence[Row], inputs: Mapping[str, Any]) -> None:
    """Print the table of `predict`, what belongs to its numbers, and why cells cannot be.

    Args:
        rows: predictions and marked cells, as in the answer.
        inputs: what was asked, as the answer repeats it.
    """
    from app.answers.cells import say_marked
    from app.render.text import print_table, say, say_remarks

    able = [row for row in rows if row["feasible"]]
    unit = time_unit(
        [seconds for r in able for seconds in (r["step_s"], *r["breakdown_s"].values())]
    )
    names = [name for name in ("model", "device", "engine") if "," in inputs[name]]
    columns = [
        *names,
        "batch",
        "context",
        "draft",
        "tokens per step",
        f"step {unit.name}",
        f"draft + verify + rest {unit.name}",
        "tokens/s",
        "speedup",
        "of throughput",
        "limited by",
    ]
    title = " on ".join(several(inputs[name], name) for name in ("model", "device"))
    title = ", ".join(
        (
            title,
            inputs["method"],
            inputs["dtype"],
            several(inputs["engine"], "engine"),
            *inputs["transform"],
        )
    )
    cells = [
        [*(str(row[name]) for name in names), *_cells(row, unit, parts=not names)] for row in rows
    ]
    print_table(
        title,
        columns,
        cells,
        caption="brackets: 80 % intervals",
        once=[*names, "batch", "context", "draft"],
    )
    if any("throughput_speedup" in row for row in able):
        say(
            "speedup: of a step, at the same batch and context; of throughput: of whole requests at"
            " that batch, prompts included, as benchmarks of engines measure it"
        )
    if any(lopsided(row["tokens_per_s"], row["tokens_per_s_interval"]) for row in able):
        say(LOPSIDED)
    if inputs["borrowed"]:
        say("acceptance borrowed: the trace was recorded on another model")
    say_remarks(able)
    say_marked(rows, names)
    if able and "plan" in able[0]:
        _print_plans(able)
    _print_explanations([row for row in able if "explain" in row])


def _cells(row: Row, unit: TimeUnit, *, parts: bool) -> list[str]:

    first = [plain(row["batch"]), plain(row["context"]), row.get("draft", "")]
    if not row["feasible"]:
        return [*first, *[""] * 6, mark_words(row)]
    seconds = [unit.show(row["breakdown_s"][part]) for part in ("draft", "verify", "overhead")]
    return [
        *first,
        fixed(row["tokens_per_step"], 2),
        unit.show(row["step_s"]),
        "+".join(seconds) if parts else "",
        ranged(row["tokens_per_s"], row["tokens_per_s_interval"]),
        ranged(row["speedup"], row["speedup_interval"], 2),
        fixed(row.get("throughput_speedup"), 2),
        row["limit"],
    ]


def _print_plans(rows: Sequence[Row]) -> None:
    from app.render.text import print_table
    from hardware_profiles.units import GIGA

    first = rows[0]["plan"]
    sizes = ", ".join(
        f"{name} {first[name]}" for name in ("tp", "pp", "ep", "dp", "cp") if first[name] > 1
    )
    cells = [
        [
            row["model"],
            row["device"],
            plain(row["batch"]),
            plain(row["context"]),
            row["draft"],
            plain(row["plan"]["tokens_per_s_per_device"]),
            fixed(row["plan"]["bytes_per_device"] / GIGA, 1),
        ]
        for row in rows
    ]
    columns = [
        "model",
        "device",
        "batch",
        "context",
        "draft",
        "tokens/s per device",
        "GB per device",
    ]
    title = f"the plan of these predictions: {sizes}, {first['devices']} devices"
    print_table(title, columns, cells, once=["model", "device", "context"])


def _print_explanations(rows: Sequence[Row]) -> None:
    from app.render.html.explain_report import summary_lines
    from app.render.text import print_table, say

    for row in rows:
        explained = row["explain"]
        title = (
            f"batch {row['batch']}, context {row['context']}, {row['draft']}: where the time goes"
        )
        columns = [
            "operation",
            "ms",
            "% of step",
            "waits for",
            "FLOP/byte",
            "% of bandwidth",
            "% of peak",
        ]
        print_table(title, columns, summary_lines(explained))
        moved = ", ".join(
            f"{e['lever']} {e['tokens_per_s']:+.2f} ({e['speedup']:+.2f})"
            for e in explained["elasticities"]
        )
        say(f"1 % more of each moves tokens/s (and the speedup) by, in %: {moved}")
        say(f"most of the interval comes from {' and '.join(explained['dominant_variance'])}")
        say(explained["sentence"])
