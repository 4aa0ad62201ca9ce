"""The progress bar: lines of long work where nobody watches, one task at a time where somebody does."""

import io
import sys
from pathlib import Path

import pytest

from app.answers import progress
from app.answers.progress import counted_lines, counting, listening, progress_line
from tests.app.conftest import run

RUNS = Path(__file__).parents[2] / "golden" / "runs.csv"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_long_work_leaves_lines_where_nobody_watches(capsys, monkeypatch):
    """Half an hour of a job in a log was an empty file."""
    now = [0.0]
    monkeypatch.setattr(progress, "SILENT_S", 30.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with counting(quiet=False) as report, progress_line(quiet=False) as tell:
        for done in range(1, 61):
            now[0] += 1.0
            report("a case", done, 60)
        tell("almost done")
    assert capsys.readouterr().err.splitlines() == [
        "a case: 30 of 60, about 30 s left",
        "a case: 40 of 60, about 20 s left",
        "a case: 50 of 60, about 10 s left",
        "a case: 60 of 60",
        "almost done",
    ]
    counted_lines(quiet=True, silent_s=0.0)("a case", 1, 2)
    assert capsys.readouterr().err == ""
    counted_lines(quiet=False, silent_s=0.0)("a case", 1, 2)
    assert capsys.readouterr().err == "a case: 1 of 2\n"


def test_nothing_is_written_of_short_work_where_nobody_watches(capsys, monkeypatch):
    with counting(quiet=False) as report:
        report("a case", 1, 2)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with counting(quiet=True) as report:
        report("a case", 1, 2)
    assert sys.stderr.getvalue() == ""


def test_a_terminal_sees_what_is_being_done(monkeypatch, capsys):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with counting(quiet=False) as report:
        for name in ("chunked", "prefill-first"):
            for done in range(0, 101, 25):
                report(name, done, 100)
    shown = screen.getvalue()
    assert "prefill-first" in shown and "100%" in shown
    assert capsys.readouterr().out == ""


@pytest.mark.heavy
@pytest.mark.parametrize(
    "words",
    [
        ("score", RUNS),
        ("reproduce", "eagle-3"),
        ("replay", "smollm2-135m--prompt-lookup--greedy", "--held-out", "--splits", "1"),
    ],
)
def test_long_work_says_how_far_it_is(words):
    reports = []
    with listening(lambda *report: reports.append(report)):
        assert run(*words).code == 0
    assert reports and all(done <= total for _, done, total in reports)
    for name, total in {(name, total) for name, _, total in reports}:
        counts = [done for each, done, whole in reports if (each, whole) == (name, total)]
        assert counts == sorted(counts) and total >= len(set(counts))
