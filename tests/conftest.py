"""Fixtures shared by every folder: reference data, a seeded generator, a clean environment."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("default", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

ROOT = Path(__file__).resolve().parent.parent

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell starts what runs in its background without ears for Ctrl-C, and children inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def root():
    """The repository's root folder."""
    return ROOT


@pytest.fixture(scope="session")
def reference_data():
    """Published measurements that are not ours to ship; tests that need them skip where they are absent."""
    folder = Path(os.environ.get("ROOFTREE_REFERENCE_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no reference data at {folder}")
    return folder


@pytest.fixture
def generator():
    return np.random.default_rng(20260101)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
