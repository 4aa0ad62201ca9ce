"""Signs that an encoding lacks: the nearest ones of ASCII, or their numbers."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.render.plain_letters import PLAIN_LETTERS


@pytest.mark.parametrize(
    ("encoding", "text", "shown"),
    [
        ("ascii", "139 [127–144] µs…", "139 [127-144] us..."),
        ("latin-1", "139 [127–144] µs", "139 [127-144] µs"),
        ("utf-8", "139 [127–144] µs…", "139 [127–144] µs…"),
        ("ascii", "kū.json", "k\\u016b.json"),
        ("utf-8", "\udcff.json", "\\udcff.json"),
    ],
)
def test_signs_become_the_nearest_that_there_are(encoding, text, shown):
    assert text.encode(encoding, PLAIN_LETTERS).decode(encoding) == shown


@given(st.text())
def test_every_text_can_be_written(text):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors=PLAIN_LETTERS)
    stream.write(text)
    stream.flush()


def test_bytes_that_are_no_text_stay_an_error():
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode("ascii", PLAIN_LETTERS)
