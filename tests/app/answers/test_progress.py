"""The progress bar: nothing where nobody watches, one task at a time where somebody does."""

import io
import sys

from app.answers.progress import counting


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_nothing_is_written_where_nobody_watches(capsys, monkeypatch):
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
