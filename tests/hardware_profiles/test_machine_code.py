"""Kept machine code is that of the very sources, options and numba that ask for it, or it is made
anew."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hardware_profiles import machine_code
from hardware_profiles.machine_code import cached_njit, code_folder, source_digest

FIRST, SECOND = "x * 3 + 10", "x * 7 + 20"
CODE = """
import sys
from walks.outer import outer
print(outer(int(sys.argv[1])), sum(outer.stats.cache_hits.values()), sum(outer.stats.cache_misses.values()))
"""


@pytest.fixture(autouse=True)
def opened_anew():
    """As in a process that has opened no folder yet."""
    code_folder.cache_clear()
    yield
    code_folder.cache_clear()


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


def environment(kept):
    return {
        **os.environ,
        "NUMBA_CACHE_DIR": str(kept),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package at one place, and what it answers to a number, with the cache's hits and misses."""
    kept, package = tmp_path / "kept", tmp_path / "site" / "walks"
    monkeypatch.setattr("numba.config.CACHE_DIR", str(kept))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(package.parent)

    def asks(number, version, process=False):
        write_version(package, version)
        if process:
            words = [sys.executable, "-c", CODE, str(number)]
            done = subprocess.run(
                words, env=environment(kept), capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            return tuple(map(int, done.stdout.split()))
        code_folder.cache_clear()
        outer = imported_anew()
        return (
            outer(number),
            sum(outer.stats.cache_hits.values()),
            sum(outer.stats.cache_misses.values()),
        )

    yield SimpleNamespace(kept=kept, asks=asks, package=package)
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
def test_what_is_half_written_or_left_by_another_release_is_made_anew(installed):
    installed.asks(2, FIRST)
    for file in files(installed.kept):  # as after a kill between numba's index and the code
        if file.suffix == ".nbc":
            file.unlink()
    assert installed.asks(2, FIRST) == (17, 0, 1)
    # an index that names a module which is no longer there, where numba alone would look for it
    beside = installed.kept / "walks_left"
    beside.mkdir()
    (beside / "outer.outer-3.py311.nbi").write_bytes(b"cwalks.gone\nThing\n.")
    assert installed.asks(2, FIRST) == (17, 1, 0)


@pytest.mark.heavy
def test_processes_that_begin_together_share_a_cache(installed):
    write_version(installed.package, FIRST)
    words = [sys.executable, "-c", CODE, "2"]
    begun = [
        subprocess.Popen(words, env=environment(installed.kept), stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [process.communicate()[0].split()[0] for process in begun] == ["17"] * 3
    assert installed.asks(2, FIRST) == (17, 1, 0)


def test_code_for_other_types_stands_beside(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    added = cached_njit(__file__)(add)
    assert added(1, 2) == 3 and added(1.5, 2.0) == 3.5
    again = cached_njit(__file__)(add)
    assert again(1, 2) == 3 and again(1.5, 2.0) == 3.5 and sum(again.stats.cache_hits.values()) == 2


@pytest.mark.parametrize("failing", ["nowhere", "read-only", "full", "homeless"])
def test_what_cannot_be_kept_still_runs(tmp_path, monkeypatch, failing):
    """And leaves nothing beside the sources, where no digest would tell versions apart."""
    beside = files(Path(__file__).parent)
    if failing == "nowhere":
        (tmp_path / "file").write_bytes(b"")
        monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "file"))
    elif failing == "read-only":
        monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
        monkeypatch.setattr("tempfile.TemporaryFile", refused)
    elif failing == "full":
        monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
        monkeypatch.setattr("shutil.disk_usage", lambda place: SimpleNamespace(free=1 << 20))
    else:
        for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr("numba.config.CACHE_DIR", "")
        monkeypatch.setattr(Path, "home", homeless)
    added = cached_njit(__file__)(add)
    assert added(1, 2) == 3
    assert not [file for file in files(tmp_path) if file.suffix in {".nbi", ".nbc"}]
    assert files(Path(__file__).parent) == beside


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"])
def test_code_goes_to_the_users_folder_for_caches(tmp_path, monkeypatch, variable):
    """A read-only installation has its code there as well."""
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    folder = code_folder(str(Path(machine_code.__file__).parent), "")
    assert folder is not None and folder.is_relative_to(tmp_path) and folder.is_dir()


def test_numbas_own_setting_stays_the_users(tmp_path, monkeypatch):
    from numba import config

    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    cached_njit(__file__)(add)
    assert str(tmp_path) == config.CACHE_DIR
    with pytest.raises(TypeError):
        cached_njit(__file__)("no function")
    assert str(tmp_path) == config.CACHE_DIR


def test_the_oldest_folders_are_removed_and_none_that_is_in_use(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_code, "MOST_FOLDERS", 3)
    root = tmp_path / "rooftree-code"
    for number in range(6):
        (root / f"old-{number}").mkdir(parents=True)
        (root / f"old-{number}" / "code.nbc").write_bytes(b"")
        os.utime(root / f"old-{number}", (number, number))
    for name in ("used", "used-too", "used-as-well"):
        (root / name).mkdir()
    folder = code_folder(str(Path(machine_code.__file__).parent), str(tmp_path))
    left = {path.name for path in root.iterdir()}
    assert left == {"used", "used-too", "used-as-well", folder.name}


def test_any_file_beside_or_below_is_part_of_what_code_is_made_from(tmp_path, monkeypatch):
    seen = {source_digest(str(tmp_path))}
    for name, text in (
        ("a.py", "1"),
        ("a.py", "2"),
        ("sub/b.py", ""),
        ("sub/c.py", ""),
        ("sub/c.py", "x"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        seen.add(source_digest(str(tmp_path)))
    (tmp_path / "notes.md").write_text("x")
    assert len(seen) == 6 and source_digest(str(tmp_path)) in seen
    monkeypatch.setattr("numba.__version__", "0.0.0")
    assert source_digest(str(tmp_path)) not in seen


def add(a, b):
    return a + b


def refused(**_):
    raise PermissionError(13, "Permission denied")


def homeless():
    raise RuntimeError("Could not determine home directory.")


@pytest.mark.heavy
def test_what_was_made_with_other_options_is_other_code(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))

    def inverse(x):
        return 1.0 / x

    assert cached_njit(__file__, error_model="numpy")(inverse)(0.0) == float("inf")
    with pytest.raises(ZeroDivisionError):
        cached_njit(__file__, error_model="python")(inverse)(0.0)
    assert len([file for file in files(tmp_path) if file.suffix == ".nbc"]) == 2


def test_code_of_an_earlier_process_is_found(tmp_path, monkeypatch):
    from numba import config

    from hardware_profiles.machine_code import cached_njit, is_compiled

    source = tmp_path / "sources" / "loop.py"
    source.parent.mkdir()
    source.write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "code"))
    assert not is_compiled(str(source))
    names = {}
    exec(compile(source.read_text(), str(source), "exec"), names)
    assert cached_njit(str(source))(names["double"])(2) == 4
    assert is_compiled(str(source))
