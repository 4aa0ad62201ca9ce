"""Fixtures shared by every folder: reference data, a seeded generator, a clean environment; and
what tests cost."""

import csv
import os
import signal
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.left_out"]

settings.register_profile(
    "default", deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "fast", deadline=None, max_examples=10, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "many", deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", deadline=None, max_examples=1000)

ROOT = Path(__file__).resolve().parent.parent
FAST = ("hardware_profiles", "traces", "costmodel", "simulator", "app/exporters")
LEFT_OUT = ("heavy", "model", "network")
FIRST = (
    "tests/browser/",
    "tests/simulator/loop/test_merging.py",
    "tests/examples/test_live_engine.py",
    "tests/real_runs/validation/masked/test_validate_masked.py",
    "tests/real_runs/campaigns/test_pretended_models.py",
    "tests/real_runs/validation/test_quick.py",
    "tests/simulator/test_twin.py",
    "tests/simulator/cluster/test_ranks.py",
    "tests/real_runs/test_recorded.py",
    "tests/examples/test_record_and_resume.py",
)
"""Begun before all others: few tests that take long, so that no worker is left alone with one of
them at the end, and one that compiles the simulator's loop, which the other worker then finds
compiled."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell starts what runs in its background without ears for Ctrl-C, and children inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def root():
    """The repository's root folder."""
    return ROOT


def reference_folder():
    return Path(os.environ.get("ROOFTREE_REFERENCE_DATA", ROOT.parent / "shared" / "data"))


@pytest.fixture(scope="session")
def reference_data():
    """Published measurements that are not ours to ship; tests that need them skip where they are
    absent."""
    folder = reference_folder()
    if not folder.is_dir():
        pytest.skip("no folder of published measurements, which ROOFTREE_REFERENCE_DATA names")
    return folder


PUBLISHED = ROOT / "tests" / "published"


@pytest.fixture(scope="session")
def published():
    """The folder of published facts that travel with the tests; its README names their sources."""
    return PUBLISHED


@pytest.fixture(scope="session")
def published_rows():
    """Published numbers with their inputs, as text by column: the whole table where it lies beside
    us, else the numbers that travel with the tests."""
    whole = reference_folder() / "published" / "speculative_and_serving.csv"
    return PublishedRows(whole if whole.is_file() else PUBLISHED / "numbers.csv")


@pytest.fixture(scope="session")
def published_kernels(published):
    """The folder of measured kernels that travel with the tests, a few dozen of each table."""
    return published / "kernels"


@pytest.fixture(scope="session")
def measured_kernels(reference_data):
    """The folder of tables of measured kernels, which lies beside us and is not ours to ship."""
    return reference_data / "kernels"


class PublishedRows(list):
    """Rows of a table, and the file that they were read from."""

    def __init__(self, file):
        with file.open(newline="", encoding="utf-8") as lines:
            super().__init__(csv.DictReader(lines))
        self.file, self.whole = file, file.parent != PUBLISHED


@pytest.fixture
def generator():
    return np.random.default_rng(20260101)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def pytest_addoption(parser):
    parser.addoption(
        "--fast",
        action="store_true",
        help=(
            f"{', '.join(FAST)} alone, without {', '.join(LEFT_OUT)} tests; ten examples of every"
            " property"
        ),
    )
    parser.addoption(
        "--cpu-seconds",
        type=int,
        default=0,
        metavar="N",
        help=(
            "at the end, list the CPU seconds of every folder and of the N dearest files and tests"
        ),
    )


def pytest_configure(config):
    settings.load_profile(
        os.environ.get("HYPOTHESIS_PROFILE", "fast" if config.getoption("--fast") else "default")
    )
    if config.getoption("--cpu-seconds"):
        config.pluginmanager.register(_Spent(config.getoption("--cpu-seconds")))


def pytest_ignore_collect(collection_path, config):
    if config.getoption("--fast"):
        folders = [ROOT / "tests" / name for name in FAST]
        inside = any(
            collection_path.is_relative_to(folder) or folder.is_relative_to(collection_path)
            for folder in folders
        )
        return None if inside else True
    return None


def pytest_collection_modifyitems(config, items):
    if config.getoption("--fast"):
        left_out = [
            item for item in items if any(item.get_closest_marker(name) for name in LEFT_OUT)
        ]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
    tests_of = Counter(map(_file, items))

    def place(item):
        """Files of `FIRST` in their order, then those of many tests before those of few."""
        file = _file(item)
        first = [place for place, name in enumerate(FIRST) if file.startswith(name)]
        return (first[0], 0) if first else (len(FIRST), -tests_of[file])

    items.sort(key=place)


def _file(item):
    return item.nodeid.partition("::")[0]


class _Spent:
    """CPU seconds of every test; what tests share counts for the first one that asked for it."""

    def __init__(self, listed):
        self.listed, self.tests, self.before_s = listed, Counter(), _cpu_s()

    def pytest_runtest_logstart(self):
        self.before_s = _cpu_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self):
        report, now = (yield), _cpu_s()
        report.cpu_s, self.before_s = now - self.before_s, now
        return report

    def pytest_runtest_logreport(self, report):
        self.tests[report.nodeid] += getattr(
            report, "cpu_s", 0.0
        )  # of a worker that died nothing is known

    def pytest_terminal_summary(self, terminalreporter):
        files, folders = Counter(), Counter()
        for name, seconds in self.tests.items():
            file = name.partition("::")[0]
            files[file] += seconds
            folders["/".join(file.split("/")[:-1][:3])] += seconds
        for kind, spent, listed in (
            ("folder", folders, None),
            ("file", files, self.listed),
            ("test", self.tests, self.listed),
        ):
            terminalreporter.write_line(f"CPU seconds by {kind}: {sum(spent.values()):.1f} in all")
            for name, seconds in spent.most_common(listed):
                terminalreporter.write_line(f"{seconds:10.2f}  {name}")


def _cpu_s():
    """Of this process and of all those that it started and that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system
