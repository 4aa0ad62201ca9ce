"""How far off is the cost model on published measurements of GPUs?

Serving runs by engine and device, as they were scored when this release was made, and the
catalogue's published numbers, predicted now. Leaves out what was measured by rooftree itself.
"""

from collections.abc import Sequence
from functools import lru_cache

from app.answers.reproduction.reproduction import reproduction
from app.answers.scoring.nearest import MeasuredRuns, measured_runs
from app.answers.scoring.published import DECILES, PublishedErrors, published_errors
from app.dashboard.answer import Card, DeferredAnswer, Figure, PageAnswer, Row
from app.dashboard.measured import PUBLISHED
from app.dashboard.state import command
from app.render.charts.charts import DASHES, PALETTE, framed
from app.render.charts.reproduction_figures import LABELS, reproduction_figure

MOST_LINES = 6


def answer_published() -> PageAnswer:
    """Errors on published serving runs, and on published numbers of the catalogue.

    Raises:
        InputError: a damaged installation.
    """
    unseen = {group.quantity: group for group in measured_runs() if not group.named}
    tpot, ttft = unseen["tpot"], unseen["ttft"]
    groups = published_errors()
    engines = [group for group in groups if group.engine and not group.device and group.tpot]
    devices = [group for group in groups if group.device and not group.engine and group.tpot]
    seen = f"Share of the {groups[0].runs:,} runs of development whose error is at most so large."
    return PageAnswer(
        headline=(
            f"Serving without drafts, {tpot.measurements:,} published runs of models on devices that"
            f" no constant was fitted to: time per output token"
            f" {100 * tpot.median_error_ratio:.1f} % off in the median, time to first token"
            f" {100 * ttft.median_error_ratio:.0f} %"
        ),
        command=command(["score", "YOUR-RUNS.csv"], {}),
        numbers=[
            ("TPOT, median error", _percent(tpot.median_error_ratio)),
            ("TPOT, p90", _percent(tpot.p90_error_ratio)),
            ("TTFT, median error", _percent(ttft.median_error_ratio)),
            ("TTFT, p90", _percent(ttft.p90_error_ratio)),
            ("Runs answered", f"{tpot.runs:,} of {tpot.measurements:,}"),
        ],
        cards=[
            Card(
                title="Time per output token, by engine",
                figure=_lines(engines, "engine"),
                note=seen,
            ),
            Card(
                title="Time per output token, by device",
                figure=_lines(_largest(devices), "device"),
                note=seen,
            ),
        ],
        tables=[
            ("Not seen: by family", _families()),
            (
                "Runs of development, by engine and device",
                [
                    _row(group)
                    for group in _largest(groups, len(groups))
                    if group.engine and group.device
                ],
            ),
        ],
        notes=[
            (
                "A family is a model on a device under an engine; its own runs are left out where"
                " its constants are fitted. The charts show runs on which the model was developed,"
                " and to which a few constants of the serving simulation were fitted."
            ),
            "What your own runs say: the command below, with a table of them.",
            f"Results: {PUBLISHED}.",
        ],
        deferred=_catalogue,
    )


def _families() -> list[Row]:
    """Every family with its errors, the largest first; their runs add up to all."""
    whole = [group for group in measured_runs() if group.engine and group.device and group.model]
    ttft = {_names(group): group for group in whole if group.quantity == "ttft"}
    rows = [group for group in whole if group.quantity == "tpot" and not group.method]
    return [
        {
            "model": group.model,
            "device": group.device,
            "engine": group.engine,
            "runs": group.measurements,
            "answered": group.runs,
            "TPOT median (%)": round(100 * group.median_error_ratio, 1),
            "TTFT median (%)": round(100 * ttft[_names(group)].median_error_ratio, 1),
        }
        for group in sorted(rows, key=lambda group: -group.measurements)
    ]


def _names(group: MeasuredRuns) -> tuple[str, str, str]:
    return group.model, group.device, group.engine


def _percent(ratio: float | None) -> str:
    return "unknown" if ratio is None else f"{100 * ratio:.1f} %"


def _largest(groups: Sequence[PublishedErrors], most: int = MOST_LINES) -> list[PublishedErrors]:
    return sorted(groups, key=lambda group: -group.runs)[:most]


def _lines(groups: Sequence[PublishedErrors], key: str) -> Figure:
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": f"{getattr(group, key)} ({group.tpot['runs']:,})",
            "x": [100 * value for value in group.tpot["deciles"]],
            "y": list(DECILES),
            "marker": {"size": 6},
            "line": {
                "color": PALETTE[place % len(PALETTE)],
                "dash": DASHES[place % len(DASHES)],
                "width": 2.5,
            },
        }
        for place, group in enumerate(groups)
        if group.tpot is not None
    ]
    side = {"title": {"text": "share of runs (%)"}, "range": [0, 100]}
    bottom = {"title": {"text": "error of the time per output token (%)"}, "rangemode": "tozero"}
    return framed(data, bottom, side, height=320, showlegend=True)


def _row(group: PublishedErrors) -> Row:
    row: dict[str, object] = {"engine": group.engine, "device": group.device, "runs": group.runs}
    for name, errors in (("TPOT", group.tpot), ("TTFT", group.ttft)):
        for part in ("median", "p90", "bias"):
            row[f"{name} {part} (%)"] = None if errors is None else round(100 * errors[part], 1)
    coverage = None if group.tpot is None else group.tpot["coverage"]
    return row | {
        "80 % intervals of TPOT hold (%)": None if coverage is None else round(100 * coverage)
    }


@lru_cache(maxsize=1)
def _catalogue() -> DeferredAnswer:
    """Published numbers of the catalogue's methods, predicted by the present cost model."""
    from real_runs.published_numbers.predict import predictions
    from real_runs.published_numbers.reported import reported_rows

    table = reported_rows([])
    answer = reproduction([("", prediction) for prediction in predictions(table, table=table)], {})
    predicted = sum(row.error_ratio is not None for row in answer.rows)
    cards = [
        Card(
            title=f"Published numbers of the catalogue: {LABELS[group].lower()}",
            figure=figure,
            note=(
                "Speedups, rates and tokens of papers against what is predicted from the inputs"
                " beside them."
            ),
        )
        for group in LABELS
        if (figure := reproduction_figure(answer.rows, group)) is not None
    ]
    rows = [
        {
            "inputs": LABELS[group],
            "what": label,
            "numbers": part.rows,
            "median (%)": round(100 * part.median_error_ratio, 1),
            "p90 (%)": round(100 * part.p90_error_ratio, 1),
        }
        for group, own in answer.groups.items()
        for label, part in own.parts
        if part.median_error_ratio is not None and part.p90_error_ratio is not None
    ]
    return DeferredAnswer(
        notes=[
            f"Of {len(answer.rows):,} published numbers in the catalogue {predicted:,} are"
            " predicted."
        ],
        cards=cards[:1],
        tables=[("Published numbers of the catalogue", rows)] if rows else [],
    )
