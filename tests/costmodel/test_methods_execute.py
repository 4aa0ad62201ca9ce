"""Every field that an entry sets is executed: change it, and a price, a number of tokens or a
refusal moves."""

from dataclasses import fields

import pytest

from app.answers.methods.conformance import moved_fields
from costmodel.method import LABELS
from costmodel.method_library import load_method, priced_alike

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("slug", sorted(set(priced_alike().values())))
def test_every_field_that_an_entry_sets_moves_something(slug):
    moved = moved_fields(load_method(slug))
    still = [field for field, question in moved.items() if question is None]
    assert not still, f"these move nothing: {', '.join(still)}"


def test_labels_are_fields():
    assert {each.name for each in fields(load_method("eagle-3"))} >= set(LABELS)
