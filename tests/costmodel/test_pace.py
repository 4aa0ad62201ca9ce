"""Refinement as data: what no decoder can be is refused by key."""

import dataclasses

import pytest

from costmodel.method_library import load_method, method_names
from costmodel.pace import Refine
from hardware_profiles.errors import InputError

PLAIN = Refine(forward="block", commit="threshold", tokens_per_pass=2.0, canvas_tokens=256)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tokens_per_pass", 0.0),
        ("tokens_per_pass", float("nan")),
        ("tokens_per_pass", float("inf")),
        ("canvas_tokens", 0),
        ("begin_ratio", 1.01),
        ("begin_ratio", -0.01),
        ("full_passes", -1),
        ("full_every", -1),
        ("canvas_every", -1),
        ("computed_ratio", 1.5),
        ("closing_passes", -1),
        ("copies", 0),
        ("vocab_state_bytes", -1.0),
    ],
)
def test_a_number_out_of_range_is_named(key, value):
    with pytest.raises(InputError, match=r"must lie in \[") as caught:
        dataclasses.replace(PLAIN, **{key: value})
    assert caught.value.key == f"refine.{key}"


@pytest.mark.parametrize(("key", "value"), [("forward", "whole"), ("commit", "guess")])
def test_an_unknown_kind_is_named(key, value):
    with pytest.raises(InputError, match=f"'{value}'; nearest"):
        dataclasses.replace(PLAIN, **{key: value})


def test_every_number_of_every_entry_has_a_range():
    """Each is checked: a number beyond any range is refused wherever it stands."""
    numbers = [
        each.name
        for each in dataclasses.fields(Refine)
        if each.type in (int, float, "int", "float")
    ]
    assert len(numbers) == 12
    for name in numbers:
        with pytest.raises(InputError):
            dataclasses.replace(PLAIN, **{name: -1e9})
    assert sum(load_method(name).refine is not None for name in method_names()) >= 40
