"""How does a person read the answer of `optimize`? As one HTML file that needs no network.

Builds the page from the answer's rows, fresh or read back from recommendation.json, so that a report
can be made later. Everything in an answer is untrusted text: it is escaped, and a content
security policy lets only the page's own two scripts run. Leaves out the figures themselves
(`charts`).
"""

import json
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from app.answers.deployment_words import deployment_words
from app.answers.optimize.designs import Designs
from app.answers.optimize.headline import (
    across_batches,
    first_choice,
    headline,
    schedule_words,
)
from app.answers.optimize.rankings import Rankings, read_rankings
from app.answers.optimize.recommended import Recommended
from app.answers.optimize.rows import ChoiceRow
from app.answers.pages import plots_available
from app.render.charts import charts
from app.render.charts.charts import digits, interval_words
from app.render.html.joint_page import joint_page
from app.render.html.optimize_sections import (
    counters_section,
    neighbours_section,
    shared_schedules,
)
from app.render.html.page import html_page, html_table, sure_badge, whole_answer, write_page
from app.render.html.refining_page import refining_page
from app.render.json import jsonable
from hardware_profiles.units import MILLI
from traces.kinds.tree import Tree

_WORDS = (2, 3, 8)  # columns of the table of choices that hold words

Json = Mapping[str, Any]

Figures = dict[str, charts.Figure]


def write_report(saved: Json, path: Path) -> None:
    """Write an answer as a standalone page, whole: to a neighbour first, then renamed.

    Args:
        saved: the JSON object of `optimize`.
        path: the HTML file; its folder is made.

    Raises:
        InputError: not an answer of `optimize`, plotly is missing, or the place cannot be written.
    """
    write_page(report_page(saved), path)


def write_pages(answer: Recommended, folder: Path) -> None:
    """Write report.html beside an answer of `optimize`, where it can be drawn.

    Args:
        answer: of one model and engine.
        folder: of its files.
    """
    if not plots_available():
        return
    if isinstance(answer.ranking, Designs):
        page = joint_page(answer)
    elif answer.quality is not None:
        page = refining_page(answer)
    else:
        page = report_page(jsonable(answer))
    write_page(page, folder / "report.html")


def report_page(saved: Json) -> str:
    """The page that `write_report` writes; the same answer gives the same text."""
    figures: Figures = {}
    with whole_answer("optimize"):
        answer = read_rankings(saved)
        title = deployment_words(answer.inputs)
        return html_page(title, _body(answer, figures), figures)


def _body(answer: Rankings, figures: Figures) -> str:
    if not answer.choices:
        raise ValueError("no choices")
    parts = (
        counters_section(answer),
        _choices(answer),
        neighbours_section(answer),
        _schedules(answer),
        _origin(answer),
    )
    return "".join((_head(answer), *_charts(answer, figures), *parts))


def _head(answer: Rankings) -> str:
    inputs, first = answer.inputs, first_choice(answer)
    eyebrow = deployment_words(inputs)
    facts = [
        ("speedup", digits(first.speedup), "×", interval_words(first.speedup_interval, "×")),
        (
            "throughput",
            digits(first.tokens_per_s),
            " tokens/s",
            interval_words(first.tokens_per_s_interval, " tokens/s"),
        ),
        (
            "tokens per step",
            digits(first.tokens_per_step),
            " tokens",
            interval_words(first.tokens_per_step_interval, " tokens"),
        ),
        (
            "step time",
            digits(first.step_s / MILLI),
            " ms",
            interval_words(first.step_s_interval, " ms", MILLI),
        ),
        ("limit", str(first.limit), "", "what a step waits for"),
    ]
    tiles = "".join(
        f"<div><dt>{name}</dt><dd>{escape(value)}<small>{unit}</small><span>{escape(note)}</span></dd></div>"
        for name, value, unit, note in facts
    )
    more = across_batches(answer)
    rest = f"<span>; {escape(more)}</span>" if more else ""
    return (
        "<header><p"
        f' class="eyebrow">{escape(eyebrow)}</p><h1>{escape(headline(answer))}{rest}.</h1><p'
        f' class="badges">{"".join(_badges(answer))}</p>{_within(answer)}<dl class="tiles">{tiles}</dl></header>'
    )


def _within(answer: Rankings) -> str:
    """How many users the limits allow, and what would serve more; empty without limits."""
    words = (part for row in answer.within_limits for part in row.sentences)
    return "".join(f"<p>{escape(part[:1].upper() + part[1:])}.</p>" for part in words)


def _badges(answer: Rankings) -> Iterable[str]:
    """What a reader must know before trusting the first line."""
    origin = first_choice(answer).provenance
    assert origin is not None  # what is drafted says where it comes from
    acceptance, device = origin.acceptance, origin.device
    label = escape(str(acceptance.label))
    if acceptance.borrowed or acceptance.kind not in ("recorded", "counted"):
        yield f'<b class="badge warn">⚠ {label}</b>'
    else:
        yield f'<b class="badge">✓ {label}</b>'
    if device.calibrated:
        yield '<b class="badge">✓ constants fitted to this device</b>'
    else:
        other = escape(str(device.constants_from or "no device"))
        yield f'<b class="badge warn">⚠ constants fitted on {other}</b>'
    if (sure := answer.how_sure) is not None:
        yield sure_badge(sure.verdict, sure.sentence)


def _charts(answer: Rankings, figures: Figures) -> Iterable[str]:
    contexts = answer.contexts
    if len(contexts) > 1:
        buttons = "".join(
            '<label><input type="radio" name="context"'
            f' value="{n}"{" checked" if n == 0 else ""}>{c:,}</label>'
            for n, c in enumerate(contexts)
        )
        yield f"<fieldset><legend>context, cached tokens per request</legend>{buttons}</fieldset>"
    cards: list[str] = []
    for n, context in enumerate(contexts):
        kind = f'data-context="{n}"{" hidden" if n else ""}'
        cards += [
            _card(
                figures,
                f"speedup-{n}",
                charts.speedup_figure(answer, context),
                "Speedup",
                "Against no speculation at the same batch and context. Bands: 80 % intervals. "
                "● chain, ◆ tree, ○ off.",
                kind,
            ),
            _card(
                figures,
                f"throughput-{n}",
                charts.throughput_figure(answer, context),
                "Throughput",
                "Tokens per second of all requests together, with 80 % intervals.",
                kind,
            ),
            _card(
                figures,
                f"step-{n}",
                charts.step_time_figure(answer, context),
                "Where the step’s time goes",
                "The fastest configuration at each batch. Overhead: the engine’s own work between"
                " passes.",
                kind,
            ),
        ]
    yield f'<section class="grid">{"".join((*cards, *_shape_cards(answer, figures)))}</section>'


def _shape_cards(answer: Rankings, figures: Figures) -> Iterable[str]:
    """What depends on no batch and context: tokens per step, and the drawn tree."""
    curve = charts.acceptance_figure(answer)
    if curve:
        yield _card(
            figures,
            "acceptance",
            curve,
            "Tokens per step",
            "From replay of each recording: what a step emits, the target’s own token included. "
            "Trees (◆, the best of each size) are measured on requests that did not choose them.",
        )
    row = charts.best_tree(answer)
    if row:
        shares = charts.path_acceptance(answer, row)
        name = f"Tree of {row.draft_tokens} draft tokens: {row.drafter}"
        chosen = any(row is winner for winner in answer.choices)
        note = f"At batch {row.batch:,}, context {row.context:,}: " + (
            "the fastest configuration there. "
            if chosen
            else "this method’s best, though another method is faster. "
        )
        note += "Siblings stand by rank, the likeliest on the left."
        if shares:
            note += " Colour and size: share of steps that keep the token, over all requests."
        shape = Tree.from_json(row.tree)
        figure = charts.tree_figure(shape, shares)
        yield _card(
            figures, "tree", figure, name, note, 'class="wide"', 15 * charts.tree_leaves(shape)
        )


def _card(
    figures: Figures,
    key: str,
    figure: charts.Figure,
    title: str,
    note: str,
    kind: str = "",
    width: int = 0,
) -> str:
    """A figure's place on the page; one that needs more pixels of width than there are scrolls by
    itself.
    """
    figures[key] = figure
    style = f"height:{int(figure['layout']['height'])}px;min-width:{width}px"
    place = (
        f'<div class="plot" id="{key}" role="img" aria-label="{escape(title)}"'
        f' style="{style}"></div>'
    )
    return (
        f"<figure {kind}><h2>{escape(title)}</h2><p>{escape(note)}</p><div"
        f' class="scroll">{place}</div></figure>'
    )


def _choices(answer: Rankings) -> str:
    head = (
        "batch",
        "context (tokens)",
        "method",
        "draft",
        "tokens/step",
        "step (ms)",
        "tokens/s",
        "speedup (×)",
        "limit",
    )

    def cells(row: ChoiceRow) -> list[str]:
        return [
            f"{row.batch:,}",
            f"{row.context:,}",
            escape(str(row.drafter)),
            escape(str(row.draft)),
            _spread(digits(row.tokens_per_step), interval_words(row.tokens_per_step_interval)),
            _spread(digits(row.step_s / MILLI), interval_words(row.step_s_interval, "", MILLI)),
            _spread(digits(row.tokens_per_s), interval_words(row.tokens_per_s_interval)),
            _spread(digits(row.speedup), interval_words(row.speedup_interval)),
            escape(str(row.limit)),
        ]

    by_place = {(cell.batch, cell.context): cell for cell in answer.cells}

    def winner(row: ChoiceRow) -> list[str]:
        cell = by_place.get((row.batch, row.context))
        after, lost = (None, None) if cell is None else (cell.runner_up, cell.lost_ratio)
        name = " ".join(str(part) for part in (after.drafter, after.draft) if part) if after else ""
        return [*cells(row), escape(name), "" if lost is None else f"{100 * lost:.0f} %"]

    order = {c: n for n, c in enumerate(answer.contexts)}
    every = sorted(answer.ranked, key=lambda row: (order[row.context], row.batch))
    more = ""
    if len(every) > len(answer.choices):
        more = (
            f"<details><summary>Every method at every batch ({len(every)} rows)</summary>"
            f"{html_table(head, map(cells, every), words=_WORDS)}</details>"
        )
    left_out = ", ".join(str(batch) for batch in answer.dropped_batches)
    note = (
        f"<p>Left out, too large for the device’s memory: batch {escape(left_out)}.</p>"
        if left_out
        else ""
    )
    return (
        '<section class="card"><h2>Choices</h2>'
        "<p>The fastest configuration at each batch, and how much slower the next best is; small"
        " print: 80 % "
        "intervals.</p>"
        f"{html_table((*head, 'next best', 'loses'), map(winner, answer.choices), words=_WORDS)}{note}{more}</section>"
    )


def _schedules(answer: Rankings) -> str:
    lines = [
        [
            escape(str(s.method)),
            f"{s.context:,}",
            escape(schedule_words(s.schedule)),
            f"{digits(100 * s.schedule_loss_ratio)} %",
        ]
        for s in answer.schedules
    ]
    files = [
        f"<li>{escape(str(engine))}:"
        f" {', '.join(f'<code>{escape(str(f))}</code>' for f in paths)}</li>"
        for engine, paths in (answer.exports).items()
    ]
    if not lines and not files:
        return ""
    head = ("method", "context (tokens)", "draft tokens by batch", "lost against the best K")
    table = html_table(head, lines, words=(0, 2)) if lines else ""
    table += shared_schedules(answer)
    listed = f"<h3>Files that engines load</h3><ul>{''.join(files)}</ul>" if files else ""
    note = "<p>Chains only: engines read draft lengths, not trees, by batch.</p>" if lines else ""
    return f'<section class="card"><h2>Schedules</h2>{note}{table}{listed}</section>'


def _origin(answer: Rankings) -> str:
    lines = []
    for d in answer.drafters:
        sampling = ", ".join(f"{key} {value}" for key, value in (d.sampling or {}).items())
        badge = ' <b class="badge warn">borrowed</b>' if d.borrowed else ""
        texts = (
            d.name,
            d.acceptance.kind,
            d.file or d.acceptance.source,
            d.model or "",
            d.recorded_drafter or "",
            sampling,
            d.dataset or "",
        )
        cells = [escape(str(text)) for text in texts]
        cells[3] += badge
        counts = [
            "" if count is None else f"{count:,}" for count in (d.requests, d.tokens, d.level)
        ]
        lines.append([*cells, *counts])
    head = (
        "drafter",
        "acceptance",
        "from",
        "on model",
        "drafted by",
        "sampling",
        "prompts",
        "requests",
        "tokens",
        "level",
    )
    inputs = "".join(
        f"<dt>{escape(str(key))}</dt><dd>{escape(json.dumps(value, ensure_ascii=False))}</dd>"
        for key, value in (answer.inputs).items()
        if value is not None
    )
    return (
        '<section class="card"><h2>Where the numbers come from</h2>'
        f"{html_table(head, lines, words=range(7)) if lines else ''}"
        f"{_costs(answer)}"
        "<p>80 % intervals combine a bootstrap over recorded requests with the cost model’s"
        " measured residuals; where "
        "acceptance is stated, counted or published they cover the cost model alone. They leave out"
        " another engine "
        "version, throttling and other traffic.</p>"
        "<details><summary>The question as asked</summary><dl"
        f' class="inputs">{inputs}</dl></details></section>'
    )


def _costs(answer: Rankings) -> str:
    """One line per contender, from its smallest batch: device, overhead, and what makes the answer
    uncertain.
    """
    lines: dict[str, list[str]] = {}
    for row in answer.ranked:
        origin = row.provenance
        assert origin is not None  # rows of drafts have one; masked blocks have another page
        device, overhead = origin.device, origin.overhead
        fitted = f"fitted on {device.constants_from or 'no device'} ({origin.fidelity})"
        terms = ", ".join(
            f"{term.term} ±{digits(100 * term.ratio)} %" for term in origin.dominant_uncertainty
        )
        source = f"{overhead.engine} {overhead.versions}: {overhead.source}"
        texts = (
            row.drafter,
            device.name,
            fitted,
            origin.drafter,
            source,
            f"{terms} of the step at batch {row.batch}",
        )
        lines.setdefault(str(row.drafter), [escape(str(text)) for text in texts])
    head = (
        "method",
        "device",
        "device constants",
        "drafter",
        "engine overhead",
        "dominant uncertainty",
    )
    return html_table(head, lines.values(), words=range(6))


def _spread(value: str, span: str) -> str:
    return f"{escape(value)}<small>{escape(span)}</small>"
