"""Campaigns of crashes run by `make faults` alone; the tiny model of the real runs; a disk of a few
megabytes."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

if find_spec("torch") is not None:
    from tests.real_runs.conftest import tiny_folder  # noqa: F401


def pytest_configure(config):
    config.addinivalue_line("markers", "faults: kills commands for minutes; `make faults`")
    config.addinivalue_line("markers", "no_torch: the commands that are killed load no torch")


def pytest_collection_modifyitems(config, items):
    if "faults" in (config.option.markexpr or ""):
        return
    left_out = [item for item in items if item.get_closest_marker("faults")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("faults")]


class SmallDisk:
    """A file system in memory, which can be made larger or read-only."""

    def __init__(self, folder):
        self.folder = folder

    def mount(self, *options):
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", self.folder],
            capture_output=True,
            check=False,
        )
        return done.returncode == 0

    def remount(self, *options):
        assert self.mount("remount", *options)

    def fill(self, left_bytes=0):
        """Leave so much room."""
        free = os.statvfs(self.folder)
        with (self.folder / f"ballast-{free.f_bavail}").open("wb") as ballast:
            os.posix_fallocate(
                ballast.fileno(), 0, max(1, free.f_bavail * free.f_frsize - left_bytes)
            )

    def empty(self):
        """Take away what fills it."""
        for ballast in self.folder.glob("ballast*"):
            ballast.unlink()


@pytest.fixture
def small_disk(tmp_path):
    """Mounted where this process may mount; else the test is left out."""
    folder = tmp_path / "disk"
    folder.mkdir()
    disk = SmallDisk(folder)
    if not sys.platform.startswith("linux") or not disk.mount("size=4m"):
        pytest.skip("this process may not mount a file system")
    yield disk
    subprocess.run(["umount", "-l", folder], check=True)
