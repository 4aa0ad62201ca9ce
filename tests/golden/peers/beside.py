"""How do predictions of several tools stand beside ours on the measurements that all of them
answer? A Markdown table.

    python -m tests.golden.peers.beside SCORE.json PEER.parquet...

`SCORE.json` is what `rooftree score TABLE... --out FOLDER` writes; a peer's file is one of
`predict_peer.py`.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from app.answers.scoring.baseline import read_baseline
from app.answers.scoring.measured import ComparedTime
from app.answers.scoring.summaries import errors

Row = Mapping[str, Any]
QUANTITIES = ("tpot", "ttft")


def tools_of(score: Row, files: Sequence[Path]) -> tuple[dict[str, dict[int, Row]], list[Row]]:
    """Milliseconds by tool, index of a measurement and quantity, and the measurements; ours is
    `rooftree`."""
    rows = score["measurements"]
    found: dict[str, dict[int, Row]] = {
        "rooftree": {
            i: {q: r[f"{q}_ms"] for q in QUANTITIES}
            for i, r in enumerate(rows)
            if r["reason"] is None
        }
    }
    for file in files:
        told = read_baseline(file)
        found[file.stem] = {
            index: {
                q: median(told[each][q] for each in row["ids"] if each in told) for q in QUANTITIES
            }
            for index, row in enumerate(rows)
            if any(each in told for each in row["ids"])
        }
    return found, rows


def lines(score: Row, files: Sequence[Path]) -> list[str]:
    """The table, a line a class of models and tool; percent."""
    tools, rows = tools_of(score, files)
    common = sorted(set.intersection(*(set(answers) for answers in tools.values())))
    made = [
        (
            "| models | tool | answered | n | TPOT bias | median / mean / p90 | TTFT bias | median"
            " / mean / p90 |"
        ),
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in ("all", "dense", "MoE", "MLA"):
        own = [index for index in common if name in ("all", rows[index]["class"])]
        for tool, answers in tools.items():
            cells = [_cells(rows, answers, own, quantity) for quantity in QUANTITIES]
            answered = f"{len(answers)} of {len(rows)}" if name == "all" else ""
            made.append(f"| {name} | {tool} | {answered} | {len(own)} | {' | '.join(cells)} |")
    return made


def _cells(
    rows: Sequence[Row], answers: Mapping[int, Row], own: Sequence[int], quantity: str
) -> str:
    found = errors(
        [
            ComparedTime(
                measured_ms=rows[i][f"measured_{quantity}_ms"], predicted_ms=answers[i][quantity]
            )
            for i in own
        ]
    )
    if found is None:
        return " | "
    shown = " / ".join(
        f"{100 * getattr(found, f'{key}_error_ratio'):.1f}" for key in ("median", "mean", "p90")
    )
    return f"{100 * found.bias_ratio:+.1f} | {shown}"


if __name__ == "__main__":
    sys.stdout.write(
        "\n".join(lines(json.loads(Path(sys.argv[1]).read_text()), [Path(f) for f in sys.argv[2:]]))
        + "\n"
    )
