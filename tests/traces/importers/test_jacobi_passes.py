"""Passes of Jacobi decoding: what a loop prints becomes the steps that it took."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from traces.importers.formats import import_trace
from traces.replay.walk import replay_chain


def decoded(text, guess, window):
    """The passes of a loop with a sliding window over a text that the model would write token by
    token, and how many tokens each settled. A token behind a wrong one is computed as wrong or right
    as `guess` says of its position and pass."""
    known, held, rows, settled = 0, {}, [], []
    while known < len(text):
        at = range(known, min(known + window, len(text)))
        before = {i: held.get(i, -1) for i in at}
        right, tokens = True, []
        for i in at:
            token = text[i] if right or guess(i, len(rows)) else 1000 + len(rows)
            tokens.append(token)
            right = right and before[i] == text[i]
        rows.append(
            {
                "request": "q",
                "tokens": tokens,
                "same": [before[i] == held_now for i, held_now in zip(at, tokens, strict=True)],
            }
        )
        held = dict(zip(at, tokens, strict=True))
        run = 0
        while run < len(tokens) and rows[-1]["same"][run]:
            run += 1
        settled.append(min(run + 1, len(tokens)))
        known += settled[-1]
    return rows, settled


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def read(tmp_path, rows):
    file = tmp_path / "passes.jsonl"
    file.write_text(lines(rows))
    return import_trace("jacobi-passes", file)


@given(data=st.data(), length=st.integers(2, 40), window=st.integers(1, 8))
def test_steps_are_what_the_loop_settled(tmp_path_factory, data, length, window):
    text = data.draw(st.lists(st.integers(0, 9), min_size=length, max_size=length))
    seed = data.draw(st.integers(0, 2**16))
    rows, settled = decoded(text, lambda at, done: (at * 7 + done * 13 + seed) % 3, window)
    trace = read(tmp_path_factory.mktemp("passes"), rows)
    assert trace.positions == length and trace.level == 1
    assert trace.summary.accepted_tokens == length - len(settled)
    played = replay_chain(trace, max(window - 1, 1))
    assert played.steps == len(settled)


def test_a_block_that_is_checked_until_it_stands_has_passes_that_are_no_steps(tmp_path):
    rows = [
        {"request": "q", "start": 0, "tokens": [5, 6, 9], "same": [False, False, False]},
        {"request": "q", "start": 0, "tokens": [5, 6, 7], "same": [True, True, False]},
        {"request": "q", "start": 0, "tokens": [5, 6, 7], "same": [True, True, True]},
        {"request": "q", "start": 3, "tokens": [2], "same": []},
    ]
    trace = read(tmp_path, rows)
    assert trace.emitted.tolist() == [1, 2, 1, 1]
    assert "1 of 4 passes settled nothing" in trace.provenance.notes
    assert "1 tokens per pass" in trace.provenance.notes


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"same": [True]}, "a flag for each of 3 tokens"),
        ({"same": [1, 0, 0]}, "true or false"),
        ({"start": 2}, "at most 1"),
        ({"tokens": [7, "a", 5]}, "tokens"),
        ({"same": [False, False, False]}, "must be true: the pass before left 7 there"),
    ],
)
def test_refusals_name_the_line(tmp_path, change, rule):
    first = {"request": "q", "tokens": [4, 7, 1], "same": [False, False, False]}
    second = {"request": "q", "tokens": [7, 2, 5], "same": [True, False, False]} | change
    with pytest.raises(InputError, match=rule) as raised:
        read(tmp_path, [first, second])
    assert "passes.jsonl" in str(raised.value) and "2" in str(raised.value)
    del second["same"]
    with pytest.raises(InputError, match="same: must stand in every pass"):
        read(tmp_path, [first, second])
