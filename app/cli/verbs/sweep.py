"""`sweep`: every cell of a product of models, devices, engines, drafters, batches and contexts, as
one Parquet file.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from app.cli.output import Answered
from app.questions.field import Field, Group
from app.questions.fields import Csv, Json, Quiet, Seed

if TYPE_CHECKING:
    from app.answers.sweep.compare import SweepComparison

DEFAULT_THRESHOLD = 0.01
_SHOWN = 20  # cells of each kind on the screen


def sweep(
    file: Annotated[
        Path | None,
        Field(
            (
                "YAML of lists: models, devices, engines, tensor_parallel, drafters, traces,"
                " batches, contexts."
            ),
            Group.WORKLOAD,
            argument=True,
        ),
    ] = None,
    out: Annotated[Path | None, Field("Parquet file, one row a cell.", Group.OUTPUT)] = None,
    resume: Annotated[
        bool,
        Field("Go on with an unfinished sweep of the same file and --out.", Group.RUN),
    ] = False,
    workers: Annotated[
        int | None,
        Field("Processes; default: one for each processor core.", Group.RUN, least=1, most=1024),
    ] = None,
    ray: Annotated[
        str | None,
        Field(
            "Compute on the nodes of a Ray cluster, host:port or auto (needs the extra `ray`).",
            Group.RUN,
            placeholder="ADDRESS",
        ),
    ] = None,
    compare: Annotated[
        tuple[Path, Path] | None,
        Field(
            "Instead: which cells moved between two results.", Group.SEARCH, placeholder="OLD NEW"
        ),
    ] = None,
    threshold: Annotated[
        float,
        Field(
            "Of --compare: a cell moves where a rate changes by more than this share.",
            Group.SEARCH,
        ),
    ] = DEFAULT_THRESHOLD,
    csv: Csv = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """Answer every cell of a file's lists: the best draft, its speed with intervals, or why there
    is none.
    """
    from hardware_profiles.errors import InputError

    if compare is not None:
        if file is not None or out is not None or resume or ray is not None:
            raise InputError("goes with --threshold, --csv and --json alone", key="--compare")
        return _compared(*compare, threshold, csv=csv, json=json, quiet=quiet)
    if file is None or out is None:
        raise InputError(
            "Missing a FILE of lists and '--out', or '--compare OLD NEW'; see `rooftree sweep"
            " --help`"
        )
    from app.answers.progress import counting
    from app.answers.sweep.file import read_sweep
    from app.answers.sweep.run import run_sweep
    from app.cli.output import deliver
    from app.questions.places import require_file

    require_file(out)
    asked = read_sweep(file)
    with counting(quiet) as bar:
        summary = run_sweep(
            asked,
            out,
            csv_file=csv,
            workers=workers,
            seed=seed,
            resume=resume,
            ray=ray,
            report=lambda done, total: bar(f"{total} cells", done, total),
        )
    answer = {
        "inputs": {"file": str(file), "seed": seed, **asked.lists.model_dump(mode="json")},
        "out": str(out),
        "csv": None if csv is None else str(csv),
        "cells": summary.cells,
        "feasible": summary.feasible,
        "topologies": dict(summary.topologies),
        "reasons": dict(summary.reasons),
        "computed": summary.computed,
        "workers": summary.workers,
    }
    return deliver(
        answer, name="sweep", json=json, out=None, quiet=quiet, show=lambda: _show(answer)
    )


def _show(answer: Mapping[str, Any]) -> None:
    from app.render.text import say

    cells, feasible = answer["cells"], answer["feasible"]
    best = ", ".join(f"{name} {count:,}" for name, count in sorted(answer["topologies"].items()))
    say(
        f"{cells:,} cells in {answer['out']}, {feasible:,} with an answer"
        + (f": {best}" if best else "")
    )
    if answer["computed"] < cells:
        say(f"{cells - answer['computed']:,} of them were finished before")
    for reason, count in answer["reasons"].items():
        say(f"{count:,} without: {reason}")
    others = cells - feasible - sum(answer["reasons"].values())
    if others:
        say(f"{others:,} more cells without; the rows have every reason")


def _compared(
    old: Path, new: Path, threshold: float, *, csv: Path | None, json: bool, quiet: bool
) -> Answered:
    from app.answers.sweep.compare import compare
    from app.cli.output import deliver
    from hardware_profiles.errors import InputError

    if not (math.isfinite(threshold) and threshold >= 0.0):
        raise InputError("must be a share >= 0", key="--threshold", value=threshold)
    result = compare(old, new, threshold=threshold)
    answer = {
        "inputs": {"old": str(old), "new": str(new), "threshold": threshold},
        "same": result.same,
        "moved": list(result.moved),
        "appeared": list(result.appeared),
        "disappeared": list(result.disappeared),
    }
    rows = [
        {"what": kind, **row}
        for kind in ("moved", "appeared", "disappeared")
        for row in answer[kind]  # type: ignore[attr-defined]
    ]
    return deliver(
        answer,
        name="comparison",
        json=json,
        out=None,
        quiet=quiet,
        csv=csv,
        rows=rows,
        show=lambda: _show_compared(result, threshold),
    )


def _show_compared(result: "SweepComparison", threshold: float) -> None:
    from app.render.text import print_table, say

    say(
        f"{len(result.moved):,} cells moved by more than {threshold:.3g}, {result.same:,} did not; "
        f"{len(result.appeared):,} appeared, {len(result.disappeared):,} disappeared"
    )
    keys = ["model", "device", "engine", "tp", "drafter", "batch", "context"]
    once = ["model", "device", "engine", "tp", "drafter"]
    if result.moved:
        rows = [[*_named(row), *_both(row)] for row in result.moved[:_SHOWN]]
        print_table(
            "moved, largest first",
            [*keys, "K", "tokens/s", "change", "speedup", "plain"],
            rows,
            caption=_more(result.moved),
            once=once,
        )
    for title, found in (("appeared", result.appeared), ("disappeared", result.disappeared)):
        if found:
            rows = [[*_named(row), _rate(row["tokens_per_s"])] for row in found[:_SHOWN]]
            print_table(title, [*keys, "tokens/s"], rows, caption=_more(found), once=once)


def _named(row: Mapping[str, Any]) -> list[str]:
    return [
        str(row[key])
        for key in ("model", "device", "engine", "tensor_parallel", "drafter", "batch", "context")
    ]


def _both(row: Mapping[str, Any]) -> list[str]:
    """Old and new draft and rate, and the changes of the three rates."""

    def pair(name: str, shown: Callable[[Any], str]) -> str:
        old, new = shown(row[f"{name}_old"]), shown(row[f"{name}_new"])
        return old if old == new else f"{old} to {new}"

    def change(name: str) -> str:
        ratio = row[f"{name}_change_ratio"]
        return "" if ratio is None else f"{100.0 * ratio:+.1f} %"

    return [
        pair("draft_tokens", lambda value: "none" if value is None else str(value)),
        pair("tokens_per_s", _rate),
        change("tokens_per_s"),
        change("speedup"),
        change("plain_tokens_per_s"),
    ]


def _rate(value: float | None) -> str:
    return "none" if value is None else f"{value:,.0f}"


def _more(rows: Sequence[object]) -> str:
    return (
        f"and {len(rows) - _SHOWN:,} more; --csv and --json have all" if len(rows) > _SHOWN else ""
    )
