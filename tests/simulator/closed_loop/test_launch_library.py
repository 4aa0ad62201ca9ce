"""What scripts of benchmarks set: every entry holds somewhere, closer entries go first, days are in
order."""

import itertools
import re

import pytest

from costmodel.engine_library import load_engine
from costmodel.passes.precision import bytes_per_value
from hardware_profiles.loader import device_names
from simulator.closed_loop.launch_library import SETTINGS, settings_of
from simulator.closed_loop.launch_settings import LaunchName


@pytest.mark.parametrize(
    ("scripts", "engine"), sorted({(entry.scripts, entry.engine) for entry in SETTINGS})
)
def test_every_entry_holds_for_some_model_device_and_day(scripts, engine):
    own = [entry for entry in SETTINGS if (entry.scripts, entry.engine) == (scripts, engine)]
    models = {"other", *(name for entry in own for name in entry.models)}
    formats = {None, *(entry.precision for entry in own)}
    days = {entry.since or "2025-09-01" for entry in own}
    reached = {
        id(
            settings_of(
                LaunchName(scripts=scripts, day=day),
                engine=engine,
                model=model,
                device=device,
                precision=precision,
            )
        )
        for model, device, precision, day in itertools.product(
            models, device_names(), formats, days
        )
    }
    assert reached == {id(entry) for entry in own}


@pytest.mark.parametrize(
    "entry", SETTINGS, ids=lambda entry: f"{entry.engine} {entry.models} {entry.since}"
)
def test_an_entry_names_an_engine_formats_and_its_source(entry):
    assert load_engine(entry.engine).name == entry.engine
    assert entry.cache is None or bytes_per_value(entry.cache) > 0
    assert entry.memory_ratio is None or 0.5 < entry.memory_ratio < 1.0
    assert re.fullmatch(r"|20\d\d-\d\d-\d\d", entry.since)
    assert len(entry.source) > 10


def test_days_of_one_subject_are_in_order():
    subjects: dict[tuple[object, ...], list[str]] = {}
    for entry in SETTINGS:
        subjects.setdefault(
            (entry.scripts, entry.engine, entry.models, entry.devices, entry.precision), []
        ).append(entry.since)
    assert all(days == sorted(set(days)) and days[0] == "" for days in subjects.values())


def test_other_models_take_the_entry_for_all_others_and_other_engines_none():
    deployment = {"model": "other", "device": "h100-sxm", "precision": None}
    newest = LaunchName(scripts="inferencex")
    entry = settings_of(newest, engine="vllm", **deployment)
    assert entry is not None and (entry.models, entry.devices) == ((), ())
    assert settings_of(newest, engine="llama.cpp", **deployment) is None
