"""The progress bar: a line now and then where nobody watches, one task at a time where somebody
does.
"""

import io
import sys

from app.answers import progress
from app.answers.progress import counting, seldom


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_little_work_writes_nothing_where_nobody_watches(capsys, monkeypatch):
    with counting(quiet=False) as report:
        report("a case", 1, 2)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with counting(quiet=True) as report:
        report("a case", 1, 2)
    assert sys.stderr.getvalue() == ""


def test_a_log_of_a_long_run_shows_that_it_goes_on(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SELDOM_S", 30.0)
    moments = iter(range(0, 110, 5))
    tell = seldom(False, lambda: next(moments))
    for done in range(21):
        tell(f"case: {done} of 20".__str__)
    assert capsys.readouterr().err.splitlines() == [
        "case: 5 of 20",
        "case: 11 of 20",
        "case: 17 of 20",
    ]
    silent = seldom(True, lambda: 1000.0)
    silent("never".__str__)
    assert capsys.readouterr() == ("", "")


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
