"""Timed steps fit their texts and follow each other, survive a file, and are refused otherwise."""

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.timed_steps import COUNTS, SECONDS, TimedSteps
from traces.kinds.tree import Tree, chain_tree
from traces.storage.acceptance_file import acceptance_table, read_acceptance, write_acceptance
from traces.storage.parquet_files import write_parquet

SHAPES = (chain_tree(0), chain_tree(2), Tree.from_paths([(0,), (1,), (0, 0)]))


def timed(lengths=(5, 4), prompts=(7, 3), seconds=0.25):
    """Plain steps and steps of one draft token, whose second answer is always one token."""
    rows = {name: [] for name in COUNTS}
    counts = []
    for length, prompt in zip(lengths, prompts, strict=True):
        before = len(rows["shape"])
        for shape, batch, step in ((0, 1, 1), (1, 2, 2)):
            at = 1
            while at < length:
                emitted = min(step, length - at)
                values = (shape, batch, 0, at, prompt + at - 1, shape, emitted)
                for name, value in zip(COUNTS, values, strict=True):
                    rows[name].append(value)
                at += emitted
        counts.append(len(rows["shape"]) - before)
    return TimedSteps(
        offsets=np.cumsum([0, *counts]),
        shapes=SHAPES,
        **rows,
        **dict.fromkeys(SECONDS, [seconds] * len(rows["shape"])),
    )


def trace(steps, lengths=(5, 4), prompts=(7, 3)):
    return AcceptanceTrace(
        prompt_tokens=prompts,
        offsets=np.cumsum([0, *lengths]),
        emitted=np.ones(sum(lengths), np.int16),
        first_step_position=1,
        steps=steps,
    )


def same(one, other):
    assert one.shapes == other.shapes and one.offsets.tolist() == other.offsets.tolist()
    for name in (*COUNTS, *SECONDS):
        values, read = getattr(one, name), getattr(other, name)
        assert values.dtype == read.dtype and values.tolist() == read.tolist()


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 50)), min_size=1, max_size=4))
def test_a_file_read_back_holds_the_steps_that_were_written(tmp_path_factory, texts):
    lengths, prompts = zip(*texts, strict=True)
    whole = trace(timed(lengths, prompts), lengths, prompts)
    path = tmp_path_factory.mktemp("timed") / "t.parquet"
    write_acceptance(whole, path)
    same(whole.steps, read_acceptance(path).steps)
    assert whole.steps.step_s.tolist() == [0.75] * whole.steps.size


def test_chosen_requests_keep_their_steps():
    whole = trace(timed())
    same(whole.select([1, 0]).steps, timed((4, 5), (3, 7)))
    assert whole.select([1]).steps.of_request().tolist() == [0] * len(timed((4,), (3,)).shape)


def test_steps_that_do_not_fit_together_are_refused():
    steps = timed()
    for change, message in (
        ({"shape": steps.shape + 3}, r"steps.shape: must lie in 0..2"),
        ({"batch": steps.batch * 0}, r"steps.batch: must lie in 1..1024"),
        ({"verify_s": steps.verify_s * np.nan}, r"steps.verify_s: must be finite"),
        ({"draft_s": steps.draft_s - 1}, r"steps.draft_s: must be finite and lie in \[0"),
        ({"rest_s": steps.rest_s + 4000}, r"steps.rest_s: must be finite and lie in \[0, 3600"),
        ({"drafted": steps.drafted + 2}, r"steps.drafted: must be at most 0 in a step"),
        ({"emitted": steps.emitted + 1}, r"steps.emitted: must be at most 1 in a step"),
        ({"position": steps.position[::-1]}, r"must start where the one before it ended"),
        ({"shapes": ()}, r"steps.shapes: must be 1 to 256"),
        ({"offsets": [0, 3, 2]}, r"steps.offsets: must start at 0 and never decrease"),
        ({"group": np.arange(steps.size) % 2}, r"must stand together"),
    ):
        with pytest.raises(InputError, match=message):
            replace(steps, **change)


def test_steps_outside_their_text_are_refused():
    steps = timed()
    for change, message in (
        ({"position": steps.position + 3}, r"must lie within its text, 1 to 5"),
        ({"context": steps.context + 1}, r"must be the prompt and the text before the step"),
    ):
        with pytest.raises(InputError, match=message):
            trace(replace(steps, **change))
    with pytest.raises(InputError, match=r"must have one list per request \(2\)"):
        trace(timed((5,), (7,)))


@pytest.mark.parametrize("name", [*COUNTS, *SECONDS])
def test_a_file_that_lacks_a_column_of_steps_is_refused(tmp_path, name):
    write_parquet(acceptance_table(trace(timed())).drop_columns(f"step_{name}"), tmp_path / "t")
    with pytest.raises(InputError, match=f"step_{name}"):
        read_acceptance(tmp_path / "t")


def test_a_header_without_shapes_is_refused(tmp_path):
    table = acceptance_table(trace(timed()))
    header = table.schema.metadata[b"rooftree"].replace(b'"steps"', b'"stops"')
    write_parquet(table.replace_schema_metadata({b"rooftree": header}), tmp_path / "t")
    with pytest.raises(InputError, match="steps: must be an object with 1 to 256 shapes"):
        read_acceptance(tmp_path / "t")
    assert "step_shape" in pq.read_schema(tmp_path / "t").names
