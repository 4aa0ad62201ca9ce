"""`methods`: published systems, listed, explained and cited, and what is priced of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from app.answers.numbers import plain
from app.cli.output import Answered, deliver
from app.questions.field import Field, Group
from app.questions.fields import Csv, Json, Out, Quiet, Seed
from app.render.text import print_table, say

if TYPE_CHECKING:
    from costmodel.method import Method

Name = Annotated[str | None, Field("Show one in full.", Group.WORKLOAD, argument=True)]


def methods(
    name: Name = None,
    coverage: Annotated[
        bool,
        Field("One row for every published system: works, priced, or why not.", Group.OUTPUT),
    ] = False,
    bibtex: Annotated[bool, Field("Print citations as BibTeX.", Group.OUTPUT)] = False,
    out: Out = None,
    csv: Csv = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """List published methods by group, or explain one with its fields, citation and reported
    numbers.
    """
    from dataclasses import fields

    from costmodel.method_library import load_method, method_names

    if coverage:
        return _coverage(name, seed, out=out, csv=csv, json=json, quiet=quiet)
    loaded = [load_method(each) for each in ([name] if name is not None else method_names())]
    if bibtex:
        return _bibtex(loaded, name, seed, out=out, json=json, quiet=quiet)
    entries = [
        {**{each.name: getattr(m, each.name) for each in fields(m)}, "exactness": m.exactness}
        for m in loaded
    ]
    answer = {"inputs": {"name": name, "seed": seed}, "methods": entries}
    rows = [
        [
            m.group,
            m.slug,
            m.title,
            str(m.citation.year or ""),
            m.read if m.read != "abstract" else "abstract only",
            ", ".join(stage.by for stage in m.stages) or "nobody",
            _shape_of(m),
            m.verify.rule,
            m.exactness if not m.refusal else "not priced",
        ]
        for m in sorted(loaded, key=lambda m: (m.group, m.slug))
    ]
    columns = ["group", "slug", "title", "year", "read", "drafted by", "shape", "verifier", "text"]

    def show() -> None:
        print_table("Methods", columns, rows)
        if name:
            _show(loaded[0])

    return deliver(
        answer,
        name="methods",
        json=json,
        out=out,
        quiet=quiet,
        show=show,
        csv=csv,
        rows=["methods"],
    )


def _coverage(
    name: str | None, seed: int, *, out: Path | None, csv: Path | None, json: bool, quiet: bool
) -> Answered:
    """What the catalogue does for every published system."""
    from collections import Counter

    from app.answers.methods import coverage

    rows = [row for row in coverage() if name in (None, row["slug"])]
    counts = Counter(row["status"] for row in rows)
    answer = {"inputs": {"name": name, "seed": seed}, "counts": dict(counts), "coverage": rows}

    def show() -> None:
        columns = ["system", "slug", "group", "read", "status", "detail"]
        print_table("Published systems", columns, [[row[key] for key in columns] for row in rows])
        say(", ".join(f"{count} {status}" for status, count in counts.most_common()))

    return deliver(
        answer,
        name="coverage",
        json=json,
        out=out,
        quiet=quiet,
        show=show,
        csv=csv,
        rows=["coverage"],
    )


def _bibtex(
    loaded: "list[Method]",
    name: str | None,
    seed: int,
    *,
    out: Path | None,
    json: bool,
    quiet: bool,
) -> Answered:
    """Citations of the entries."""
    from app.answers.methods import bibtex

    text = "\n\n".join(map(bibtex, loaded))
    answer = {"inputs": {"name": name, "seed": seed}, "bibtex": text}
    return deliver(answer, name="bibtex", json=json, out=out, quiet=quiet, show=lambda: say(text))


def _shape_of(method: "Method") -> str:
    if method.refine is not None:
        return f"{method.shape.kind}, {method.refine.commit}"
    return method.shape.kind if method.advance is None else type(method.advance).__name__.lower()


def _show(method: "Method") -> None:
    """An entry in words, every field that it sets, its citation and what was reported."""
    from dataclasses import fields, is_dataclass

    from app.answers.methods import explained

    c = method.citation
    known = (c.authors, c.title, str(c.year or ""), f"arXiv:{c.arxiv}" if c.arxiv else c.url)
    say(" ".join(f"{each.rstrip('.')}." for each in known if each))
    for line in explained(method):
        say(f"  {line}")

    def lines(path: str, value: object) -> None:
        if isinstance(value, tuple) and value and all(is_dataclass(each) for each in value):
            for index, each in enumerate(value):
                lines(f"{path}[{index}]" if len(value) > 1 else path, each)
        elif is_dataclass(value) and not isinstance(value, type):
            for each in fields(value):
                if getattr(value, each.name) not in (each.default, {}, (), "none"):
                    lines(f"{path}.{each.name}", getattr(value, each.name))
        else:
            say(f"  {path}: {value}")

    for part in (
        "target",
        "draft",
        "shape",
        "stop",
        "verify",
        "refine",
        "advance",
        "batch",
        "host_s",
        "deployment",
        "own_weights",
        "engines",
        "systems",
        "recorded",
        "reproduced",
    ):
        value = getattr(method, part)
        if value not in ((), None, {}, 0.0, False):
            lines(part, value)
    for line in method.assumed:
        say(f"  assumed {line}")
    for r in method.reported:
        words = (r.model, r.draft, r.device, f"batch {r.batch}" if r.batch else "", r.data, r.note)
        say(
            f"  reported {r.quantity} {plain(r.value, 6)}: {', '.join(filter(None, words))}"
            f" ({r.source})"
        )
