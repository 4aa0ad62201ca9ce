"""A pytest plugin: one plain line at the end that says how many tests were left out, and why."""

from collections import Counter

import pytest

_SLOW = "slow, which `make slow` runs"


class LeftOut:
    """Counts tests that did not run; workers of xdist, which all leave out the same slow ones,
    hand their count on."""

    def __init__(self, config):
        self.config, self.slow = config, 0

    def pytest_deselected(self, items):
        self.slow += sum(item.get_closest_marker("slow") is not None for item in items)

    def pytest_sessionfinish(self):
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["slow"] = self.slow

    def pytest_terminal_summary(self, terminalreporter):
        reasons = Counter(
            report.longrepr[2].removeprefix("Skipped: ")
            for report in terminalreporter.stats.get("skipped", ())
        )
        if self.slow:
            reasons[_SLOW] = self.slow
        if reasons:
            parts = "; ".join(f"{count} ({reason})" for reason, count in reasons.most_common())
            terminalreporter.write_line(f"Left out: {reasons.total()} tests: {parts}")

    @pytest.hookimpl(optionalhook=True)  # of xdist
    def pytest_testnodedown(self, node):
        output = getattr(node, "workeroutput", {})  # a worker that died has none
        self.slow = output.get("slow", self.slow)


def pytest_configure(config):
    config.pluginmanager.register(LeftOut(config))
