"""What does `optimize` write for a cell, and what is the object of several cells?

One cell writes into the folder of the answer, several into a folder each that bears their names.
Leaves out what the screen shows (`shown.optimize`) and what files hold (`app.exporters`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.answers.deployables import Deployable
    from costmodel.optimizers.recommend import Recommendation

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class CellAnswer:
    """The answer of one model, device and engine, ready to be written.

    Args:
        answer: what was recommended.
        body: its object.
        entries: what every engine loads.
        name: of its folder within that of the whole answer; empty for the only cell.
    """

    answer: "Recommendation"
    body: dict[str, Any]
    entries: "list[Deployable]"
    name: str

    def write(self, out: Path) -> None:
        """Write engine files, the report where it can be drawn, and among several cells the object.

        Raises:
            InputError: the folder cannot be written.
        """
        from app.answers.deployables import write_all
        from app.render.html.page import plots_available
        from app.render.html.report import write_report
        from app.render.json import write_json

        write_all(self.entries, out / self.name)
        if self.name:
            write_json(self.body, out / self.name / "recommendation.json")
        if plots_available():
            write_report(self.body, out / self.name / "report.html")


def cell_answer(
    answer: "Recommendation",
    inputs: Row,
    unmet: Sequence[Row],
    out: Path | None,
    *,
    several: bool,
    counters: Row | None = None,
) -> CellAnswer:
    """An answer with its object and its files.

    Args:
        answer: what was recommended.
        inputs: what was asked of all cells.
        unmet: marked rows of all cells.
        out: folder of the whole answer, or None.
        several: there are other cells.
        counters: what an engine's counters say of what runs, where they were given.
    """
    from app.answers.deployables import deployables, file_paths
    from app.answers.optimize import recommendation

    where = answer.question.deployment
    mine = {"model": where.model, "device": where.device, "engine": where.engine}
    name = (
        re.sub(r"[^\w.+-]+", "_", "--".join(Path(each).name for each in mine.values()))
        if several
        else ""
    )
    entries = deployables(answer, context=answer.winners[0].context)
    paths = file_paths(entries, out / name) if out is not None else {}
    rows = [row for row in unmet if all(row.get(key) == each for key, each in mine.items())]
    body = recommendation(answer, {**inputs, **mine}, paths, rows)
    body |= {} if counters is None else {"counters": dict(counters)}
    return CellAnswer(answer=answer, body=body, entries=entries, name=name)


def together(inputs: Row, answers: Sequence[CellAnswer], unmet: Sequence[Row]) -> dict[str, Any]:
    """The object of several cells, or of none: their rows, and what each of them says beyond.

    Args:
        inputs: what was asked.
        answers: of the cells that have any.
        unmet: marked rows.
    """
    rows = {
        key: [row for each in answers for row in each.body[key]]
        for key in ("choices", "alternatives")
    }
    beyond = [
        {
            "folder": each.name,
            **{key: value for key, value in each.body.items() if key not in (*rows, "unmet")},
        }
        for each in answers
    ]
    return {
        "inputs": dict(inputs),
        **rows,
        "unmet": [dict(row) for row in unmet],
        "answers": beyond,
    }
