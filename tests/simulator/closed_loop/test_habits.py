"""What scripts of publishers set: every entry holds somewhere, closer entries go first, days are in order."""

import itertools
import re

import pytest

from costmodel.architectures.library import model_names
from costmodel.engine_library import load_engine
from costmodel.passes.precision import bytes_per_value
from hardware_profiles.loader import device_names
from simulator.closed_loop.habits import HABITS, habit

DAYS = sorted({entry.since or "2025-09-01" for entry in HABITS})


def test_every_entry_holds_for_some_model_device_and_day():
    reached = {
        id(habit(publisher, engine=engine, model=model, device=device, day=day))
        for publisher, engine in {(entry.publisher, entry.engine) for entry in HABITS}
        for model, device, day in itertools.product([*model_names(), "other"], device_names(), DAYS)
    }
    assert reached == {id(entry) for entry in HABITS}


@pytest.mark.parametrize("entry", HABITS, ids=lambda entry: f"{entry.engine} {entry.models} {entry.since}")
def test_an_entry_names_an_engine_formats_and_its_source(entry):
    assert load_engine(entry.engine).name == entry.engine
    assert entry.cache is None or bytes_per_value(entry.cache) > 0
    assert entry.memory_ratio is None or 0.5 < entry.memory_ratio < 1.0
    assert re.fullmatch(r"|20\d\d-\d\d-\d\d", entry.since)
    assert len(entry.source) > 10


def test_days_of_one_subject_are_in_order():
    subjects: dict[tuple[object, ...], list[str]] = {}
    for entry in HABITS:
        subjects.setdefault((entry.publisher, entry.engine, entry.models, entry.devices), []).append(entry.since)
    assert all(days == sorted(set(days)) and days[0] == "" for days in subjects.values())


def test_other_models_take_the_entry_for_all_others_and_other_engines_none():
    found = habit("inferencex", engine="vllm", model="other", device="h100-sxm", day=None)
    assert found is not None and (found.models, found.devices) == ((), ())
    assert habit("inferencex", engine="llama.cpp", model="other", device="h100-sxm", day=None) is None
