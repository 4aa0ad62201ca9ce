"""Questions through the doors in this process, and what a relation between their answers says over
many of them."""

import json
import math
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from app.dashboard.answers.run.page import answer_run
from hardware_profiles.errors import RooftreeError
from tests.agreement.questions import Question, line
from tests.app.conftest import Ended, run

ROUNDING = 1e-9
"""Doors add up the same terms in other orders; their answers differ by the rounding of double
precision."""
SHOWN = 5
REFUSED, INFEASIBLE = 2, 3


class Said(NamedTuple):
    """An answer of the command line.

    Args:
        line: that asks for it.
        code: of its end.
        body: the object of `--json`; empty where there is none.
        message: on standard error.
    """

    line: str
    code: int
    body: dict[str, Any]
    message: str


@lru_cache(maxsize=2048)
def ask(spelled: tuple[str, ...]) -> Said:
    """The answer of a command; the same words are answered once."""
    more = ("--out", _folder()) if spelled[0] == "optimize" else ()
    ended: Ended = run(*spelled, *more, "--json", "--quiet")
    body = json.loads(ended.out) if ended.out.startswith("{") else {}
    return Said(line(spelled), ended.code, body, ended.err)


@lru_cache(maxsize=1)
def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="agreement-")


def _folder() -> str:
    return str(Path(_scratch().name) / "optimize")


def cell_of_a_sweep(question: Question) -> Said:
    """The one row of a sweep, under the code that a command with this answer would end with."""
    lists, out = Path(_scratch().name) / "lists.json", Path(_scratch().name) / "cells.parquet"
    lists.write_text(json.dumps(question.sweep()))
    ended = run("sweep", lists, "--out", out, "--workers", 1, "--json", "--quiet")
    text = f"sweep of {json.dumps(question.sweep())}"
    if ended.code:
        return Said(text, ended.code, {}, ended.err)
    (row,) = pq.read_table(out).to_pylist()
    code = 0 if row["feasible"] else INFEASIBLE if row["memory_bytes"] else REFUSED
    return Said(text, code, row, row["reason"] or "")


def page_of_the_dashboard(question: Question) -> Said:
    """The best configuration of the dashboard's first page, under the code that a command would end
    with."""
    try:
        answer = answer_run(question.state())
    except RooftreeError as error:
        return Said(f"dashboard: {question.state()}", error.exit_code, {}, str(error))
    if not answer.tables:
        return Said(answer.command, INFEASIBLE, {}, answer.headline)
    return Said(answer.command, 0, dict(answer.tables[0][1][0]), answer.headline)


@dataclass
class Relation:
    """What holds between answers, over many questions: failures are collected and shown with their
    questions.

    Args:
        says: the relation, in words.
    """

    says: str
    compared: int = 0
    failures: list[str] = field(default_factory=list)

    def equal(
        self,
        what: str,
        left: Any,
        right: Any,
        lines: Sequence[str],
        *,
        rel: float = ROUNDING,
        absolute: float = 0.0,
    ) -> None:
        """Both sides are the same, numbers within a tolerance."""
        self._judge(what, left, right, lines, holds=same(left, right, rel, absolute), sign="is not")

    def at_most(
        self, what: str, low: float, high: float, lines: Sequence[str], *, rel: float = ROUNDING
    ) -> None:
        """The first side is at most the second."""
        self._judge(
            what, low, high, lines, holds=low <= high + rel * abs(high), sign="is more than"
        )

    def rows(
        self, what: Iterable[str], left: Any, right: Any, lines: Sequence[str], **within: float
    ) -> None:
        """Two rows say the same under every name."""
        differ = {
            name: (left[name], right[name])
            for name in what
            if not same(left[name], right[name], **within)
        }
        self.compared += 1
        if differ:
            said = "; ".join(
                f"{name} {_text(a)} is not {_text(b)}" for name, (a, b) in differ.items()
            )
            self.failures.append(_failure(said, lines))

    def _judge(
        self, what: str, left: Any, right: Any, lines: Sequence[str], *, holds: bool, sign: str
    ) -> None:
        self.compared += 1
        if not holds:
            self.failures.append(
                _failure(f"{what}: {_text(left)} {sign} {_text(right)}{_by(left, right)}", lines)
            )

    def holds(self, *, least: int) -> None:
        """It held of every pair, and there were at least so many: a relation over nothing says
        nothing."""
        if self.failures:
            first = f"{self.says}: not so in {len(self.failures)} of {self.compared}"
            pytest.fail("\n".join([first, *self.failures[:SHOWN]]), pytrace=False)
        if self.compared < least:
            pytest.fail(
                f"{self.says}: of {self.compared} pairs alone, of at least {least}", pytrace=False
            )


def same(left: Any, right: Any, rel: float = ROUNDING, absolute: float = 0.0) -> bool:
    """Whether two values are equal, numbers within a tolerance, lists entry by entry."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(
            same(a, b, rel, absolute) for a, b in zip(left, right, strict=True)
        )
    if isinstance(left, float) and isinstance(right, float | int):
        return math.isclose(left, right, rel_tol=rel, abs_tol=absolute)
    return bool(left == right)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_text, value)) + "]"
    return str(value)


def _by(left: Any, right: Any) -> str:
    both = isinstance(left, float | int) and isinstance(right, float | int) and right
    return f" by {100.0 * (left / right - 1.0):+.3g} %" if both else ""


def _failure(said: str, lines: Sequence[str]) -> str:
    return "\n".join([f"  {said}", *(f"    {text}" for text in lines)])
