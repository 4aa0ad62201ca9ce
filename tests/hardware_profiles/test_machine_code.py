"""Kept machine code is that of the very sources, types and numba that ask for it, or it is made
anew."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hardware_profiles import machine_code
from hardware_profiles.machine_code import cached_njit

FIRST, SECOND = "x * 3 + 10", "x * 7 + 20"
CODE = """
import sys
from walks.outer import outer
print(outer(int(sys.argv[1])), sum(outer.stats.cache_hits.values()), sum(outer.stats.cache_misses.values()))
"""


def write_version(package, formula):
    """The caller stays as it is; what it calls, in another file of the same size and time, is the
    version."""
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("")
    head = "from hardware_profiles.machine_code import cached_njit\n"
    (package / "inner.py").write_text(
        f"{head}@cached_njit(__file__)\ndef inner(x):\n    return {formula}\n"
    )
    (package / "outer.py").write_text(
        f"{head}from walks.inner import inner\n@cached_njit(__file__)\ndef outer(x):\n    return"
        " inner(x) + 1\n"
    )
    for file in package.iterdir():
        if file.is_file():
            os.utime(file, (1_700_000_000, 1_700_000_000))


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package at one place, and what it answers to a number, with the cache's hits and misses."""
    kept, package = tmp_path / "kept", tmp_path / "site" / "walks"
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(kept))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(package.parent)

    def asks(number, version, process=False):
        write_version(package, version)
        if process:
            about = {
                **os.environ,
                "NUMBA_CACHE_DIR": str(kept),
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONPATH": os.pathsep.join(sys.path),
            }
            words = [sys.executable, "-c", CODE, str(number)]
            done = subprocess.run(words, env=about, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            return tuple(map(int, done.stdout.split()))
        machine_code._sources.cache_clear()
        outer = imported_anew()
        return (
            outer(number),
            sum(outer.stats.cache_hits.values()),
            sum(outer.stats.cache_misses.values()),
        )

    yield SimpleNamespace(kept=kept, asks=asks)
    forget()


def imported_anew():
    """As a process finds it that never saw another version."""
    forget()
    importlib.invalidate_caches()
    return importlib.import_module("walks.outer").outer


def forget():
    for name in ("walks", "walks.inner", "walks.outer"):
        sys.modules.pop(name, None)


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.heavy
def test_two_versions_share_a_cache_and_never_run_each_others_code(installed):
    assert installed.asks(2, FIRST) == (17, 0, 1)
    assert installed.asks(2, SECOND) == (35, 0, 1)
    held = [file.read_bytes() for file in files(installed.kept)]
    # after a downgrade in place the first one's code is there still
    assert installed.asks(2, FIRST, process=True) == (17, 1, 0)
    assert installed.asks(2, SECOND) == (35, 1, 0)
    assert [file.read_bytes() for file in files(installed.kept)] == held


@pytest.mark.heavy
def test_what_is_damaged_or_left_by_another_release_is_made_anew(installed):
    installed.asks(2, FIRST)
    first = files(installed.kept)
    for file in first:
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert installed.asks(2, FIRST) == (17, 0, 1)
    # an index that names a module which is no longer there, as numba's own would be found after an
    # upgrade
    gone = b"cwalks.gone\nThing\n."
    for file in first:
        file.write_bytes(gone)
        file.with_name(
            f"{file.name.split('.')[0]}.py{sys.version_info[0]}{sys.version_info[1]}.nbi"
        ).write_bytes(gone)
    assert installed.asks(2, FIRST) == (17, 0, 1)
    assert installed.asks(2, FIRST) == (17, 1, 0)


@pytest.mark.heavy
def test_code_for_other_types_is_another_file_and_is_checked(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    added = cached_njit(__file__)(add)
    assert added(1, 2) == 3 and added(1.5, 2.0) == 3.5
    whole, real = files(tmp_path)
    again = cached_njit(__file__)(add)
    assert again(1, 2) == 3 and again(1.5, 2.0) == 3.5 and sum(again.stats.cache_hits.values()) == 2
    content = whole.read_bytes()
    whole.write_bytes(real.read_bytes())  # a name that two keys share would look so
    real.write_bytes(content)
    third = cached_njit(__file__)(add)
    assert third(1, 2) == 3 and third(1.5, 2.0) == 3.5 and sum(third.stats.cache_hits.values()) == 0


@pytest.mark.parametrize("failing", ["nowhere", "full"])
def test_what_cannot_be_kept_still_runs(tmp_path, monkeypatch, failing):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    if failing == "nowhere":
        monkeypatch.setattr("numba.core.caching.CacheImpl._locator_classes", [])
    else:
        monkeypatch.setattr(Path, "write_bytes", full)
    added = cached_njit(__file__)(add)
    assert added(1, 2) == 3
    assert not files(tmp_path)


def test_code_of_other_versions_is_removed_once_nobody_has_made_it_for_a_month(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    cached_njit(__file__)(add)(1, 2)
    (mine,) = files(tmp_path)
    base = mine.name.rsplit(".", 3)[0]
    old, new = (
        mine.with_name(f"{base}.{'0' * 20}.{'1' * 20}.nbc"),
        mine.with_name(f"{base}.{'2' * 20}.{'1' * 20}.nbc"),
    )
    for file in (old, new):
        file.write_bytes(b"")
    os.utime(old, (0, 0))
    os.utime(mine, (0, 0))
    cached_njit(__file__)(add)(1.0, 2.0)
    left = files(tmp_path)
    assert old not in left and new in left and mine in left and len(left) == 3


def test_any_file_beside_or_below_is_part_of_what_code_is_made_from(tmp_path):
    def digest():
        machine_code._sources.cache_clear()
        return machine_code._sources(str(tmp_path))

    seen = {digest()}
    for name, text in (
        ("a.py", "1"),
        ("a.py", "2"),
        ("sub/b.py", ""),
        ("sub/c.py", ""),
        ("sub/c.py", "x"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        seen.add(digest())
    (tmp_path / "notes.md").write_text("x")
    assert len(seen) == 6 and digest() in seen


def add(a, b):
    return a + b


def full(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.heavy
def test_what_was_made_with_other_options_is_other_code(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))

    def inverse(x):
        return 1.0 / x

    assert cached_njit(__file__, error_model="numpy")(inverse)(0.0) == float("inf")
    with pytest.raises(ZeroDivisionError):
        cached_njit(__file__, error_model="python")(inverse)(0.0)
    assert len(files(tmp_path)) == 2
