"""What do all pages of figures share? A standalone HTML file that needs no network.

Style for light and dark, the script that draws, a content security policy that lets only the page's
own two scripts run, tables, cards, and writing whole. Bodies come in as HTML whose untrusted text
is escaped already. Leaves out what the pages say.
"""

import base64
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path

from app.answers import pages
from app.answers.scoring.certainty import MEASURED
from app.render.charts.charts import Figure
from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import make_folder, whole_file

plots_available = pages.plots_available


def html_page(title: str, body: str, figures: Mapping[str, Figure], *, key: str = "report") -> str:
    """A whole page; the same arguments give the same text.

    Args:
        title: of the window, not escaped.
        body: HTML inside `main`.
        figures: by the `id` of their `.plot` elements.
        key: option that asked for the page, for the error.

    Raises:
        InputError: plotly is missing.
    """
    if not plots_available():
        raise InputError("needs plotly: pip install 'rooftree[app]'", key=key)
    from plotly.offline import get_plotlyjs

    scripts = [get_plotlyjs(), SCRIPT]
    digests = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts
    ]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    policy = f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:"
    # "<" would let a name end the element; JSON may spell it otherwise
    drawn = json.dumps(figures, ensure_ascii=True, allow_nan=False).replace("<", chr(92) + "u003c")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta'
        f' http-equiv="Content-Security-Policy" content="{escape(policy)}"><meta name="viewport"'
        f' content="width=device-width, initial-scale=1"><title>{escape(title)} ·'
        f" rooftree</title><style>{STYLE}</style></head>\n<body><main>{body}</main>\n<script"
        f' type="application/json" id="figures">{drawn}</script>\n'
        + "\n".join(f"<script>{script}</script>" for script in scripts)
        + "</body></html>\n"
    )


@contextmanager
def whole_answer(of: str) -> Iterator[None]:
    """Refuse what turns out to be no answer of a verb, or one of another version, while its page is
    made.

    Args:
        of: the verb, for the error.

    Raises:
        InputError: a key is missing or a value is of another kind.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError) as error:
        raise InputError(
            f"is not a whole answer of {of} ({type(error).__name__}: {error})", key="answer"
        ) from None


def write_page(page: str, path: Path) -> None:
    """Write a page whole: to a neighbour first, then renamed; the folder is made.

    Raises:
        InputError: the place cannot be written.
    """
    make_folder(path.parent)
    with whole_file(path) as part:
        part.write_text(page, encoding="utf-8")


def figure_card(figures: dict[str, Figure], key: str, figure: Figure, title: str, note: str) -> str:
    """A figure with heading and note; the figure is entered under `key`."""
    figures[key] = figure
    place = (
        f'<div class="plot" id="{key}" role="img" aria-label="{escape(title)}" '
        f'style="height:{int(figure["layout"]["height"])}px"></div>'
    )
    return (
        f"<figure><h2>{escape(title)}</h2><p>{escape(note)}</p><div"
        f' class="scroll">{place}</div></figure>'
    )


def sure_badge(verdict: str, sentence: str) -> str:
    """How sure an answer is, as a chip with the sentence why; both are escaped here."""
    kind = "badge" if verdict == MEASURED else "badge warn"
    return f'<b class="{kind}">How sure: {escape(verdict)}</b> <span>{escape(sentence)}.</span>'


def html_table(
    head: Sequence[str], lines: Iterable[Sequence[str]], *, words: Collection[int] = (0,)
) -> str:
    """A table of cells that are HTML already; columns in `words` are text, the others numbers."""
    kind = ["" if column in words else ' class="n"' for column in range(len(head))]
    top = "".join(f"<th{k}>{escape(name)}</th>" for name, k in zip(head, kind, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{k}>{cell}</td>" for cell, k in zip(line, kind, strict=True))
        + "</tr>"
        for line in lines
    )
    return (
        '<div class="scroll"'
        f' tabindex="0"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
    )


STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#59626d;--page:#f4f5f7;--card:#fff;--line:#dfe3e8;--grid:#e8ebef;
--warn:#8a3d00;--warnbg:#fff1e0;--ok:#0b5c46;--okbg:#e3f4ee}
@media (prefers-color-scheme:dark){:root:not(.paper){--ink:#e6e9ed;--soft:#a0a9b4;--page:#0f1215;--card:#181c21;
--line:#2c333b;--grid:#2a3038;--warn:#ffc58a;--warnbg:#3a2609;--ok:#8fdcc0;--okbg:#0f2e25}}
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
.badges span{font-size:14px;align-self:center}
@page{margin:10mm}
.paper,.paper body{color-scheme:light;background:#fff}.sheet .tiles dd{font-size:18px}
.paper .sheet{width:1120px}
.paper .grid{grid-template-columns:repeat(2,minmax(0,1fr))}
@media print{body{background:#fff}main{max-width:none;padding:0}figure,.card{break-inside:avoid}
.sheet{zoom:var(--fit,.6)}}
@media screen and (max-width:800px){main{padding:20px 12px 32px}.grid{grid-template-columns:minmax(0,1fr)}
.tiles dd{font-size:21px}.tiles{grid-template-columns:repeat(2,minmax(0,1fr))}.tiles div:last-child{grid-column:1/-1}}
"""

SCRIPT = """
(() => {
  const PAPER = [718, 970]; // CSS pixels within the margins of both
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
  const root = document.documentElement, sheet = document.querySelector(".sheet");
  addEventListener("beforeprint", () => { // in ink on white; a sheet as large as fits one page, A4 or letter
    root.classList.add("paper");
    draw();
    if (sheet) root.style.setProperty("--fit", Math.min(PAPER[0] / sheet.offsetWidth, PAPER[1] / sheet.scrollHeight));
  });
  addEventListener("afterprint", () => { root.classList.remove("paper"); draw(); });
})();
"""
