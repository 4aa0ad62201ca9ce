"""The keys of `scheduler` in a scenario are the fields of the one record, with its types and
ranges."""

from dataclasses import fields
from typing import get_args, get_type_hints

import pytest

from costmodel.scheduler import Scheduler
from hardware_profiles.errors import InputError
from simulator.loop.options import SchedulerOptions
from simulator.scenario.file import SchedulerSection, checked_scenario

LEAST = {
    "requests": {"count": 1, "users": 1, "prompt_tokens": 1, "output_tokens": 1},
    "deployment": {"model": "smollm2-135m"},
}
NAMES = [field.name for field in fields(Scheduler)]
# what makes a value possible that no scheduler has alone
BESIDE = {
    "numbered_slots": {"reserve_ratio": 1.0},
    "equal_passes": {"numbered_slots": True, "pass_tokens": 1, "reserve_ratio": 1.0},
}


def kinds(model):
    """Plain types of the fields of a class, without None."""
    hints = get_type_hints(model)
    return {name: set(get_args(hints[name]) or [hints[name]]) - {type(None)} for name in NAMES}


def test_every_field_is_a_key_that_may_be_left_open():
    assert kinds(SchedulerSection) == kinds(Scheduler)
    assert all(SchedulerSection.model_fields[name].default is None for name in NAMES)


def test_what_runs_is_a_scheduler_with_fields_of_its_own():
    assert issubclass(SchedulerOptions, Scheduler)
    own = set(SchedulerOptions.__annotations__)
    assert not own & set(NAMES)
    assert {field.name for field in fields(SchedulerOptions)} == own | set(NAMES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [-1, 0, 1, 2, 0.5, 1.5, True])
def test_a_scenario_refuses_what_a_scheduler_refuses(name, value):
    if type(value) not in kinds(Scheduler)[name]:
        return

    def refused(make):
        try:
            make()
        except InputError as error:
            return name in str(error)
        return False

    stated = {**BESIDE.get(name, {}), name: value}
    section = {**LEAST, "scheduler": stated}
    assert refused(lambda: Scheduler(**stated)) == refused(lambda: checked_scenario(section))
