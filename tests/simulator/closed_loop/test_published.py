"""What scripts of publishers set: every entry holds somewhere, closer entries go first, days are in
order."""

import itertools
import re

import pytest

from costmodel.engine_library import load_engine
from costmodel.passes.precision import bytes_per_value
from hardware_profiles.loader import device_names
from simulator.closed_loop.published import PUBLISHED, habit


@pytest.mark.parametrize(
    ("publisher", "engine"), sorted({(entry.publisher, entry.engine) for entry in PUBLISHED})
)
def test_every_entry_holds_for_some_model_device_and_day(publisher, engine):
    own = [entry for entry in PUBLISHED if (entry.publisher, entry.engine) == (publisher, engine)]
    models = {"other", *(name for entry in own for name in entry.models)}
    formats = {None, *(entry.precision for entry in own)}
    days = {entry.since or "2025-09-01" for entry in own}
    reached = {
        id(
            habit(
                publisher, engine=engine, model=model, device=device, precision=precision, day=day
            )
        )
        for model, device, precision, day in itertools.product(
            models, device_names(), formats, days
        )
    }
    assert reached == {id(entry) for entry in own}


@pytest.mark.parametrize(
    "entry", PUBLISHED, ids=lambda entry: f"{entry.engine} {entry.models} {entry.since}"
)
def test_an_entry_names_an_engine_formats_and_its_source(entry):
    assert load_engine(entry.engine).name == entry.engine
    assert entry.cache is None or bytes_per_value(entry.cache) > 0
    assert entry.memory_ratio is None or 0.5 < entry.memory_ratio < 1.0
    assert re.fullmatch(r"|20\d\d-\d\d-\d\d", entry.since)
    assert len(entry.source) > 10


def test_days_of_one_subject_are_in_order():
    subjects: dict[tuple[object, ...], list[str]] = {}
    for entry in PUBLISHED:
        subjects.setdefault(
            (entry.publisher, entry.engine, entry.models, entry.devices, entry.precision), []
        ).append(entry.since)
    assert all(days == sorted(set(days)) and days[0] == "" for days in subjects.values())


def test_other_models_take_the_entry_for_all_others_and_other_engines_none():
    found = habit(
        "inferencex", engine="vllm", model="other", device="h100-sxm", precision=None, day=None
    )
    assert found is not None and (found.models, found.devices) == ((), ())
    assert (
        habit(
            "inferencex",
            engine="llama.cpp",
            model="other",
            device="h100-sxm",
            precision=None,
            day=None,
        )
        is None
    )
