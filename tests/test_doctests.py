"""Every example in a docstring runs and prints what it says."""

import doctest
import importlib
import pkgutil

import pytest

PACKAGES = ("hardware_profiles", "traces", "costmodel", "app", "real_runs")


def modules():
    for package in PACKAGES:
        yield package
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            yield found.name


def test_examples_run():
    tried = 0
    for name in modules():
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as missing:
            if missing.name in ("torch", "transformers", "gguf", "safetensors", "plotly"):
                continue
            raise
        result = doctest.testmod(module)
        assert result.failed == 0, name
        tried += result.attempted
    if tried < 20:
        pytest.fail(f"only {tried} examples were found")
