"""The committed table of policies on held-out halves is what is computed now, and covers every
shipped recording."""

import csv

from tests.golden.held_out_policies import (
    COLUMNS,
    FILE,
    RECORDED,
    lines,
    recordings,
    schedule_by_load,
    summary,
)


def committed():
    with FILE.open(newline="") as file:
        header, *table = csv.reader(file)
    assert tuple(header) == COLUMNS
    return [tuple(line) for line in table]


def test_every_shipped_recording_is_in_the_table():
    named = {line[0] for line in committed()}
    assert named == {str(path.relative_to(RECORDED).with_suffix("")) for path in recordings()}


def test_a_slice_is_computed_as_it_was_committed():
    name = "smollm2-135m--prompt-lookup--t0.8"
    now = [tuple(map(str, line)) for line in lines(RECORDED / f"{name}.parquet", (8,))]
    assert now == [line for line in committed() if line[0] == name and line[1] == "8"]


def test_what_the_table_says_in_a_sentence():
    print("\n" + summary(committed()))
    ours = [line for line in committed() if line[2] == "rooftree"]
    gains = [float(line[6]) for line in ours]
    assert len(ours) >= 90
    assert sum(gains) / len(gains) > 0.005, (
        "on average ours is faster than the best of the others in hindsight"
    )
    assert not [line for line in ours if float(line[8]) < 0.0], (
        "ours is nowhere slower by more than the interval"
    )
    assert min(gains) > -0.02


def test_what_one_shape_a_batch_loses_to_who_chooses_at_every_step():
    """Shipped drafters draft serially and keep few tokens: whole drafts of seven tokens cost more
    than choosing among them brings, at every load."""
    found = schedule_by_load(committed())
    print()
    for (batch, policy), (gain, slower, of) in found.items():
        print(f"batch {batch}, one shape over {policy}: {gain:+.1%}, slower on {slower} of {of}")
    assert {batch for batch, _ in found} == {1, 8, 64}
    for (_, policy), (gain, slower, of) in found.items():
        assert gain > 0.0 and slower <= of / 4
        assert slower == 0 or "DSpark" not in policy
