"""How does a person read the answer of `optimize`? As one HTML file that needs no network.

Builds the page from the answer's JSON object, fresh or read back from recommendation.json, so that a report can be
made later. Everything in an answer is untrusted text: it is escaped, and a content security policy lets only the
page's own two scripts run. Leaves out the figures themselves (`charts`).
"""

import base64
import hashlib
import importlib.util
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from app import charts
from app.charts import contender, contexts, digits, draft_words, interval_words, labels, rows
from hardware_profiles.errors import InputError
from hardware_profiles.units import MILLI
from traces.tree import Tree

Json = Mapping[str, Any]

Figures = dict[str, charts.Figure]


def report_available() -> bool:
    """Whether plotly, of the extra `app`, is installed."""
    return importlib.util.find_spec("plotly") is not None


def write_report(answer: Json, path: Path) -> None:
    """Write an answer as a standalone page, whole: to a neighbour first, then renamed.

    Args:
        answer: the JSON object of `optimize`.
        path: the HTML file; its folder is made.

    Raises:
        InputError: not an answer of `optimize`, plotly is missing, or the place cannot be written.
    """
    page = report_page(answer)
    partial = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(page, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", file=path) from None


def report_page(answer: Json) -> str:
    """The page that `write_report` writes; the same answer gives the same text."""
    if not report_available():
        raise InputError("needs plotly: pip install 'rooftree[app]'", key="report")
    from plotly.offline import get_plotlyjs

    try:
        figures: Figures = {}
        body = _body(answer, figures)
        drawn = json.dumps(figures, ensure_ascii=True, allow_nan=False)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError) as error:
        wrong = f"is not a whole answer of optimize ({type(error).__name__}: {error})"
        raise InputError(wrong, key="answer") from None
    scripts = [get_plotlyjs(), SCRIPT]
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    policy = f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:"
    question = answer.get("inputs") or {}
    title = f"{question.get('model', '')} on {question.get('device', '')} · rooftree"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body><main>{body}</main>\n"
        # "<" would let a name end the element; JSON may spell it otherwise
        f'<script type="application/json" id="figures">{drawn.replace("<", chr(92) + "u003c")}</script>\n'
        + "\n".join(f"<script>{script}</script>" for script in scripts)
        + "</body></html>\n"
    )


def headline(answer: Json) -> str:
    """What to run at the smallest batch and how fast that is, in plain words (not escaped)."""
    first = _first(answer)
    where = f"at batch {first['batch']:,} and context {first['context']:,}"
    if first["topology"] == "off":
        return f"Run without speculation {where}: nothing that was compared is faster"
    plural = "s" if first["draft_tokens"] != 1 else ""
    shape = "a tree of " if first["topology"] == "tree" else ""
    span = first["speedup_interval"]
    sure = "" if not span or None in span or span[0] > 1 else ", so it may be no faster"
    return (
        f"Run {labels(answer)[contender(first)]} with {shape}{first['draft_tokens']} draft token{plural} {where}: "
        f"{digits(first['speedup'])}× the speed of no speculation (80 % interval {interval_words(span, '×')}{sure})"
    )


def across_batches(answer: Json) -> str:
    """How the headline goes on: the schedule of the winner's chains, and where another method takes the lead."""
    first, names = _first(answer), labels(answer)
    winners = sorted((r for r in answer["choices"] if r["context"] == first["context"]), key=lambda r: r["batch"])
    words = schedule_words(answer.get("schedule") or ())
    chains = " of chains" if first["topology"] == "tree" else ""
    parts = [f"as a schedule{chains}, {words}"] if words else []
    for before, row in pairwise(winners):
        name, previous = ("no speculation" if r["topology"] == "off" else names[contender(r)] for r in (row, before))
        if name != previous:
            parts.append(f"{name} leads from batch {row['batch']:,}")
    return "; ".join(parts)


def schedule_words(ranges: Iterable[Sequence[int]]) -> str:
    """Inclusive batch ranges as `draft 4 tokens at batch 1-28, 2 at 29-128`, with en dashes."""
    parts: list[str] = []
    for low, high, count in ranges:
        span = f"{low:,}–{high:,}" if high > low else f"{low:,}"
        unit = "" if any("token" in part for part in parts) else " token" if count == 1 else " tokens"
        drafted = "nothing" if count == 0 else f"{count}{unit}"
        parts.append(f"{drafted} at {'' if parts else 'batch '}{span}")
    return "draft " + ", ".join(parts) if parts else ""


def _body(answer: Json, figures: Figures) -> str:
    if not answer["choices"]:
        raise ValueError("no choices")
    return "".join((_head(answer), *_charts(answer, figures), _choices(answer), _schedules(answer), _origin(answer)))


def _head(answer: Json) -> str:
    inputs, first = answer.get("inputs") or {}, _first(answer)
    question = [inputs.get("model"), inputs.get("device"), f"engine {inputs.get('engine', 'not named')}"]
    question.append(f"tensor parallel {inputs['tp']}" if inputs.get("tp", 1) != 1 else "")
    eyebrow = " · ".join(str(part) for part in question if part)
    ratios = (("speedup", "speedup", "×"), ("throughput", "tokens_per_s", " tokens/s"),
              ("tokens per step", "tokens_per_step", " tokens"))  # fmt: skip
    facts = [
        *(
            (name, digits(first[key]), unit, interval_words(first[f"{key}_interval"], unit))
            for name, key, unit in ratios
        ),
        ("step time", digits(first["step_s"] / MILLI), " ms", interval_words(first["step_s_interval"], " ms", MILLI)),
        ("limit", str(first["limit"]), "", "what a step waits for"),
    ]
    tiles = "".join(
        f"<div><dt>{name}</dt><dd>{escape(value)}<small>{unit}</small><span>{escape(note)}</span></dd></div>"
        for name, value, unit, note in facts
    )
    more = across_batches(answer)
    rest = f"<span>; {escape(more)}</span>" if more else ""
    return (
        f'<header><p class="eyebrow">{escape(eyebrow)}</p><h1>{escape(headline(answer))}{rest}.</h1>'
        f'<p class="badges">{"".join(_badges(answer))}</p><dl class="tiles">{tiles}</dl></header>'
    )


def _badges(answer: Json) -> Iterable[str]:
    """What a reader must know before trusting the first line."""
    origin = _first(answer).get("provenance") or {}
    acceptance, device = origin.get("acceptance") or {}, origin.get("device") or {}
    if acceptance.get("borrowed"):
        label = acceptance.get("label") or "acceptance borrowed"
        yield f'<b class="badge warn">⚠ {escape(str(label))}</b>'
    else:
        yield '<b class="badge">✓ acceptance recorded on this model</b>'
    if device.get("calibrated"):
        yield '<b class="badge">✓ constants fitted to this device</b>'
    else:
        other = escape(str(device.get("constants_from") or "no device"))
        yield f'<b class="badge warn">⚠ constants fitted on {other}</b>'


def _charts(answer: Json, figures: Figures) -> Iterable[str]:
    asked = contexts(answer)
    if len(asked) > 1:
        buttons = "".join(
            f'<label><input type="radio" name="context" value="{n}"{" checked" if n == 0 else ""}>{c:,}</label>'
            for n, c in enumerate(asked)
        )
        yield f"<fieldset><legend>context, cached tokens per request</legend>{buttons}</fieldset>"
    cards: list[str] = []
    for n, context in enumerate(asked):
        kind = f'data-context="{n}"{" hidden" if n else ""}'
        cards += [
            _card(figures, f"speedup-{n}", charts.speedup_figure(answer, context), "Speedup",
                  "Against no speculation at the same batch and context. Bands: 80 % intervals. "
                  "● chain, ◆ tree, ○ off.", kind),
            _card(figures, f"throughput-{n}", charts.throughput_figure(answer, context), "Throughput",
                  "Tokens per second of all requests together, with 80 % intervals.", kind),
            _card(figures, f"step-{n}", charts.step_time_figure(answer, context), "Where the step’s time goes",
                  "The fastest configuration at each batch. Overhead: the engine’s own work between passes.", kind),
        ]  # fmt: skip
    yield f'<section class="grid">{"".join((*cards, *_shape_cards(answer, figures)))}</section>'


def _shape_cards(answer: Json, figures: Figures) -> Iterable[str]:
    """What depends on no batch and context: tokens per step, and the drawn tree."""
    curve = charts.acceptance_figure(answer)
    if curve:
        yield _card(figures, "acceptance", curve, "Tokens per step",
                    "From replay of each recording: what a step emits, the target’s own token included. "
                    "Trees (◆, the best of each size) are measured on requests that did not choose them.")  # fmt: skip
    row = charts.best_tree(answer)
    if row:
        shares = charts.path_acceptance(answer, row)
        name = f"Tree of {row['draft_tokens']} draft tokens: {labels(answer)[contender(row)]}"
        chosen = any(row is winner for winner in answer["choices"])
        note = f"At batch {row['batch']:,}, context {row['context']:,}: " + (
            "the fastest configuration there. " if chosen else "this method’s best, though another method is faster. "
        )
        note += "Siblings stand by rank, the likeliest on the left."
        if shares:
            note += " Colour and size: share of steps that keep the token, over all requests."
        shape = Tree.from_json(row["tree"])
        figure = charts.tree_figure(shape, shares)
        yield _card(figures, "tree", figure, name, note, 'class="wide"', 15 * charts.tree_leaves(shape))


def _card(
    figures: Figures, key: str, figure: charts.Figure, title: str, note: str, kind: str = "", width: int = 0
) -> str:
    """A figure's place on the page; one that needs more pixels of width than there are scrolls by itself."""
    figures[key] = figure
    style = f"height:{int(figure['layout']['height'])}px;min-width:{width}px"
    place = f'<div class="plot" id="{key}" role="img" aria-label="{escape(title)}" style="{style}"></div>'
    return f'<figure {kind}><h2>{escape(title)}</h2><p>{escape(note)}</p><div class="scroll">{place}</div></figure>'


def _choices(answer: Json) -> str:
    head = ("batch", "context (tokens)", "method", "draft", "tokens/step", "step (ms)", "tokens/s", "speedup (×)",
            "limit")  # fmt: skip
    names = labels(answer)

    def cells(row: Json) -> list[str]:
        return [
            f"{row['batch']:,}", f"{row['context']:,}", escape(names[contender(row)]), escape(draft_words(row)),
            _spread(digits(row["tokens_per_step"]), interval_words(row["tokens_per_step_interval"])),
            _spread(digits(row["step_s"] / MILLI), interval_words(row["step_s_interval"], "", MILLI)),
            _spread(digits(row["tokens_per_s"]), interval_words(row["tokens_per_s_interval"])),
            _spread(digits(row["speedup"]), interval_words(row["speedup_interval"])), escape(str(row["limit"])),
        ]  # fmt: skip

    order = {c: n for n, c in enumerate(contexts(answer))}
    every = sorted(rows(answer), key=lambda row: (order[row["context"]], row["batch"]))
    more = ""
    if len(every) > len(answer["choices"]):
        more = (
            f"<details><summary>Every method at every batch ({len(every)} rows)</summary>"
            f"{_table(head, map(cells, every))}</details>"
        )
    left_out = ", ".join(str(batch) for batch in answer.get("dropped_batches") or ())
    note = f"<p>Left out, too large for the device’s memory: batch {escape(left_out)}.</p>" if left_out else ""
    return (
        '<section class="card"><h2>Choices</h2>'
        "<p>The fastest configuration at each batch; small print: 80 % intervals.</p>"
        f"{_table(head, map(cells, answer['choices']))}{note}{more}</section>"
    )


def _schedules(answer: Json) -> str:
    lines = [
        [escape(str(s["method"])), f"{s['context']:,}", escape(schedule_words(s["schedule"])),
         f"{digits(100 * s['schedule_loss_ratio'])} %"]
        for s in answer.get("schedules") or ()
    ]  # fmt: skip
    files = [
        f"<li>{escape(str(engine))}: {', '.join(f'<code>{escape(str(f))}</code>' for f in paths)}</li>"
        for engine, paths in (answer.get("exports") or {}).items()
    ]
    if not lines and not files:
        return ""
    head = ("method", "context (tokens)", "draft tokens by batch", "lost against the best K")
    table = _table(head, lines, words=(0, 2)) if lines else ""
    listed = f"<h3>Files that engines load</h3><ul>{''.join(files)}</ul>" if files else ""
    note = "<p>Chains only: engines read draft lengths, not trees, by batch.</p>" if lines else ""
    return f'<section class="card"><h2>Schedules</h2>{note}{table}{listed}</section>'


def _origin(answer: Json) -> str:
    recordings = []
    for t in answer.get("traces") or ():
        sampling = ", ".join(f"{key} {value}" for key, value in (t.get("sampling") or {}).items()) or "not stated"
        badge = ' <b class="badge warn">borrowed</b>' if t.get("borrowed") else ""
        model, drafter, prompts = (t[key] or "unnamed" for key in ("model", "drafter", "dataset"))
        told = [escape(str(text)) for text in (t["file"], t["method"], model, drafter, sampling, prompts)]
        told[2] += badge
        recordings.append([*told, f"{t['requests']:,}", f"{t['tokens']:,}", str(int(t["level"]))])
    head = ("trace", "method", "recorded on", "drafter", "sampling", "prompts", "requests", "tokens", "level")
    inputs = "".join(
        f"<dt>{escape(str(key))}</dt><dd>{escape(json.dumps(value, ensure_ascii=False))}</dd>"
        for key, value in (answer.get("inputs") or {}).items()
    )
    return (
        '<section class="card"><h2>Where the numbers come from</h2>'
        f"{_table(head, recordings, words=range(6)) if recordings else ''}"
        f"{_costs(answer)}"
        "<p>80 % intervals combine a bootstrap over recorded requests with the cost model’s measured residuals. They "
        "leave out another engine version, throttling and other traffic.</p>"
        f'<details><summary>The question as asked</summary><dl class="inputs">{inputs}</dl></details></section>'
    )


def _costs(answer: Json) -> str:
    """One line per contender, from its smallest batch: device, overhead, and what makes the answer uncertain."""
    lines: dict[tuple[str, str], list[str]] = {}
    for row in rows(answer):
        origin = row.get("provenance") or {}
        device, overhead = origin.get("device") or {}, origin.get("overhead") or {}
        fitted = f"fitted on {device.get('constants_from') or 'no device'} ({origin.get('fidelity', '')})"
        dominant = origin.get("dominant_uncertainty") or ()
        terms = ", ".join(f"{term['term']} ±{digits(100 * term['ratio'])} %" for term in dominant)
        source = f"{overhead.get('engine', '')} {overhead.get('versions', '')}: {overhead.get('source', '')}"
        texts = (labels(answer)[contender(row)], device.get("name", ""), fitted, origin.get("drafter", ""), source,
                 f"{terms} of the step at batch {row['batch']}")  # fmt: skip
        lines.setdefault(contender(row), [escape(str(text)) for text in texts])
    head = ("method", "device", "device constants", "drafter", "engine overhead", "dominant uncertainty")
    return _table(head, lines.values(), words=range(6))


def _table(head: Sequence[str], lines: Iterable[Sequence[str]], words: Iterable[int] = (2, 3, 8)) -> str:
    """A table of cells that are HTML already; columns in `words` are text, the others numbers."""
    kind = ["" if column in set(words) else ' class="n"' for column in range(len(head))]
    top = "".join(f"<th{k}>{escape(name)}</th>" for name, k in zip(head, kind, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{k}>{cell}</td>" for cell, k in zip(line, kind, strict=True)) + "</tr>" for line in lines
    )
    return f'<div class="scroll" tabindex="0"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _spread(value: str, span: str) -> str:
    return f"{escape(value)}<small>{escape(span)}</small>"


def _first(answer: Json) -> Json:
    """The winner at the first context's smallest batch."""
    found: Json = min((r for r in answer["choices"] if r["context"] == contexts(answer)[0]), key=lambda r: r["batch"])
    return found


STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#59626d;--page:#f4f5f7;--card:#fff;--line:#dfe3e8;--grid:#e8ebef;
--warn:#8a3d00;--warnbg:#fff1e0;--ok:#0b5c46;--okbg:#e3f4ee}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ed;--soft:#a0a9b4;--page:#0f1215;--card:#181c21;--line:#2c333b;
--grid:#2a3038;--warn:#ffc58a;--warnbg:#3a2609;--ok:#8fdcc0;--okbg:#0f2e25}}
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:1180px;margin:0 auto;padding:32px 20px 48px}.eyebrow{margin:0;color:var(--soft);font-size:14px}
h1{font-size:clamp(19px,2.4vw,25px);line-height:1.3;font-weight:600;margin:6px 0 14px;max-width:66ch}
h1 span{font-weight:400;color:var(--soft)}h2{font-size:17px;font-weight:600;margin:0}h3{font-size:15px}
h1,h2,li,code,dd,.badge{overflow-wrap:anywhere}.badges{display:flex;flex-wrap:wrap;gap:8px;margin:0 0 18px}
.badge{font-size:13px;font-weight:600;padding:3px 10px;border-radius:12px;background:var(--okbg);color:var(--ok)}
.badge.warn{background:var(--warnbg);color:var(--warn)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(170px,1fr));gap:12px;margin:0 0 16px}
.tiles div,.card,figure{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:14px 16px}
.tiles dt{color:var(--soft);font-size:13px}.tiles dd{margin:0;font-size:25px;font-weight:600;line-height:1.25}
.tiles span{display:block;font-size:13px;font-weight:400;color:var(--soft)}.tiles small{font-size:15px;font-weight:500}
fieldset{border:0;padding:0;margin:0 0 12px;display:flex;flex-wrap:wrap;gap:8px}
legend{margin-bottom:6px;color:var(--soft);font-size:14px;padding:0}
fieldset label{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:4px 12px;font-size:14px}
.grid{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:16px;margin-bottom:16px}
figure{margin:0;min-width:0}figure[hidden]{display:none}.card{margin-bottom:16px}.wide{grid-column:1/-1}
.card>p,figure>p{color:var(--soft);font-size:14px;margin:2px 0 8px}.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;min-width:860px;margin:8px 0 12px;font-size:14px}
th{color:var(--soft);font-weight:500;font-size:13px;text-align:left;vertical-align:bottom;white-space:nowrap}
th,td{padding:6px 10px;border-bottom:1px solid var(--line)}td{vertical-align:top;max-width:34ch;word-wrap:break-word}
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
td small{display:block;color:var(--soft);font-size:12px}summary{cursor:pointer;font-size:14px}
ul{margin:4px 0;padding-left:20px;font-size:14px}.inputs dt{color:var(--soft)}.inputs dd{margin:0}
.inputs{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:2px 16px;font-size:14px}
@media (max-width:800px){main{padding:20px 12px 32px}.grid{grid-template-columns:minmax(0,1fr)}.tiles dd{font-size:21px}
.tiles{grid-template-columns:repeat(2,minmax(0,1fr))}.tiles div:last-child{grid-column:1/-1}}
"""

SCRIPT = """
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const ink = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const themed = layout => {
    const axis = {gridcolor: ink("--grid"), linecolor: ink("--line"), zerolinecolor: ink("--grid")};
    return {...layout, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: {family: "system-ui, sans-serif", size: 12, color: ink("--soft")},
      hoverlabel: {bgcolor: ink("--card"), bordercolor: ink("--line"), align: "left", font: {color: ink("--ink")}},
      xaxis: {...layout.xaxis, ...axis}, yaxis: {...layout.yaxis, ...axis}};
  };
  const draw = () => document.querySelectorAll("figure:not([hidden]) .plot").forEach(place => {
    const {data, layout} = structuredClone(figures[place.id]);
    Plotly.react(place, data, themed(layout), {responsive: true, displayModeBar: false});
  });
  document.querySelectorAll("input[name=context]").forEach(choice => choice.addEventListener("change", () => {
    document.querySelectorAll("figure[data-context]")
      .forEach(card => { card.hidden = card.dataset.context !== choice.value; });
    draw();
  }));
  dark.addEventListener("change", draw);
  draw();
})();
"""
