"""The map for newcomers names modules and functions that exist."""

import importlib
import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
MAP = TEXT.partition("## How a question travels")[2].partition("\n## ")[0]
NAMES = sorted(set(re.findall(r"`((?:app|costmodel|simulator|traces|real_runs)(?:\.\w+)+)`", MAP)))


def test_the_map_names_enough_to_follow_a_question():
    assert {name.partition(".")[0] for name in NAMES} == {
        "app",
        "costmodel",
        "simulator",
        "traces",
        "real_runs",
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_the_map_exists(name):
    module, _, attribute = name.rpartition(".")
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        assert hasattr(importlib.import_module(module), attribute)
