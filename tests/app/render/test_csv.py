"""`--csv` of every verb that shows a table: the rows of its JSON, numbers as they are."""

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.render.csv import csv_text, flat_row

RUNS = Path(__file__).parents[2] / "golden" / "runs.csv"
SERVED = (
    "simulate",
    "--model",
    "gpt2",
    "--rate",
    "4",
    "--count",
    "6",
    "--prompt-tokens",
    "20",
    "--output-tokens",
    "4",
)
VERBS = {
    "predict": (
        ("predict", "--model", "gpt2", "--acceptance", "0.6", "--method", "n-gram"),
        ["predictions"],
    ),
    "optimize": (
        (
            "optimize",
            "--model",
            "gpt2",
            "--method",
            "n-gram",
            "--acceptance",
            "0.6",
            "--batch",
            "1,8",
        ),
        ["choices", "alternatives", "unmet"],
    ),
    "capacity": (
        ("capacity", "--model", "gpt2", "--rate", "3", "--prompt", "50", "--output", "20"),
        ["plans"],
    ),
    "breakeven": (
        ("breakeven", "--model", "gpt2", "--method", "n-gram", "--acceptance", "0.6"),
        ["points"],
    ),
    "replay": (("replay", "{ranks}"), ["chains", "trees", "varying"]),
    "tree": (("tree", "--acceptance", "{vector}", "--nodes", "4,8"), ["trees"]),
    "score": (("score", str(RUNS)), ["slices"]),
    "simulate": ((*SERVED, "--rates", "1,2", "--compare", "chunked"), ["cases", "load"]),
    "models": (("models",), ["models"]),
    "prices": (("models", "gpt2", "--price", "l4,h100-sxm"), ["prices"]),
    "devices": (("devices",), ["devices"]),
    "device": (("devices", "l4"), ["devices"]),
    "methods": (("methods",), ["methods"]),
    "inspect": (("traces", "inspect", "{ranks}"), ["kinds"]),
    "compare": (("traces", "compare", "{ranks}"), ["rows"]),
    "acceptance": (("acceptance", "list", "--method", "eagle-3"), ["entries"]),
    "drafters": (
        ("acceptance", "compare", "--method", "mtp", "--drafter", "mtp:0.7"),
        ["yours", "entries"],
    ),
}


@pytest.mark.parametrize("verb", VERBS)
def test_the_rows_of_a_file_are_those_of_the_object(rooftree, files, tmp_path, verb):
    words, keys = VERBS[verb]
    given = [word.format(ranks=files.ranks, vector=files.vector) for word in words]
    out = () if verb != "optimize" else ("--out", tmp_path / "out")
    done = rooftree(*given, *out, "--csv", tmp_path / "rows.csv", "--json")
    rows = [flat_row(row) for key in keys for row in done.answer.get(key) or []]
    with (tmp_path / "rows.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(rows) > 0
    for line, row in zip(lines, rows, strict=True):
        for name, value in row.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                written = (
                    ""
                    if value is None
                    else json.dumps(value)
                    if isinstance(value, list)
                    else str(value)
                )
                assert line[name] == written, name
            else:
                assert float(line[name]) == value, name
        assert all(line[name] == "" for name in line.keys() - row.keys())


letters = st.text('abc ,"\né', max_size=5)
values = st.one_of(
    st.none(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), letters
)


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["a", "b", "c"]), values, min_size=1),
        min_size=1,
        max_size=5,
    )
)
def test_rows_read_back_from_their_text(rows):
    read = list(csv.DictReader(io.StringIO(csv_text(rows), newline="")))
    assert len(read) == len(rows)
    for line, row in zip(read, rows, strict=True):
        assert all(line[name] == ("" if row.get(name) is None else str(row[name])) for name in line)


def test_records_and_intervals_become_columns():
    row = {
        "a": {"b": 1, "c": {"d": 2}},
        "x_interval": [0.5, 1.5],
        "deep": {"y_interval": [1, 2]},
        "list": [1, {}],
    }
    names, written = csv_text([row]).splitlines()
    assert names == "a.b,a.c.d,x_low,x_high,deep.y_low,deep.y_high,list"
    assert written == '1,2,0.5,1.5,1,2,"[1, {}]"'
