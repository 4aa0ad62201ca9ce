"""Rows say what their columns mean; each medium shows the same numbers."""

from dataclasses import dataclass
from typing import Annotated

import pytest

from app.answers.answer import Answer, Column, Row, Table, columns_of
from app.render.csv import csv_text
from app.render.frame import frame, wanted_columns, wanted_rows
from app.render.json import jsonable
from app.render.text import drawn
from hardware_profiles.errors import InfeasibleError


@dataclass(frozen=True, kw_only=True, slots=True)
class Lap(Row):
    runner: Annotated[str, Column("Who ran.")]
    lap_s: Annotated[float, Column("Time.", head="lap", unit="s")]
    lap_s_interval: Annotated[tuple[float, float], Column("Its interval.")]
    held_bytes: Annotated[float, Column("Memory.", head="held", unit="bytes", decimals=1)]
    share: Annotated[float | None, Column("Of the whole.", unit="ratio", decimals=0)] = None
    note: Annotated[str | None, Column("Not shown in the table.")] = None

    @property
    def both(self) -> Annotated[tuple[float, ...], Column("Two.", unit="s", of=("lap_s",))]:
        """The lap twice."""
        return self.lap_s, 2 * self.lap_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Missing(Row):
    runner: Annotated[str, Column("Who did not.")]
    feasible: Annotated[bool, Column("No.")] = False

    @property
    def mark(self) -> str:
        return "did not run"

    @property
    def reason_words(self) -> str:
        return "ill"


@dataclass(frozen=True, kw_only=True)
class Laps(Answer):
    name = "laps"
    unwritten = ("aside",)
    laps: list[Lap | Missing]
    aside: str = "for the screen"
    best: str | None = None

    @property
    def own_rows(self):
        return self.laps

    def shown(self):
        yield Table(
            title="laps", rows=self.laps, columns=["runner", "lap_s", "both", "held_bytes", "share"]
        )
        yield self.aside


LAPS = [
    Lap(runner="a", lap_s=0.024, lap_s_interval=(0.02, 0.03), held_bytes=2.5e9, share=0.25),
    Lap(runner="b", lap_s=0.5, lap_s_interval=(0.4, 0.6), held_bytes=1e9, note="slow"),
]


def test_a_table_shows_one_unit_of_time_intervals_and_marks():
    words = drawn(
        Table(title="", rows=[*LAPS, Missing(runner="c")], columns=["runner", "lap_s", "both"])
    )
    assert words.heads == ["runner", "lap ms", "both ms"]
    assert words.cells == [
        ["a", "24.0 [20.0–30.0]", "24+48"],
        ["b", "500 [400–600]", "500+1,000"],
        ["c", "", "did not run"],
    ]


def test_bytes_and_shares_are_scaled():
    words = drawn(Table(title="", rows=LAPS, columns=["held_bytes", "share"]))
    assert words.heads == ["held GB", "share %"]
    assert words.cells == [["2.5", "25"], ["1.0", ""]]


def test_a_list_is_spread_over_a_column_for_every_entry():
    @dataclass(frozen=True, kw_only=True, slots=True)
    class Heat(Row):
        runner: Annotated[str, Column("Who ran.")]
        laps: Annotated[list[float | None], Column("Times.", decimals=1)]

    rows = [Heat(runner="a", laps=[1.0, None, 3.25]), Heat(runner="b", laps=[2.0])]
    table = Table(
        title="", rows=rows, columns=["laps", "runner"], spread={"laps": ["L1", "L2", "L3"]}
    )
    words = drawn(table)
    assert words.heads == ["L1", "L2", "L3", "runner"]
    assert words.cells == [["1.0", "", "3.2", "a"], ["2.0", "", "", "b"]]


def test_json_leaves_out_what_a_row_does_not_have():
    body = jsonable(Laps(inputs={"seed": 0}, laps=LAPS))
    assert list(body) == ["inputs", "laps"]
    assert body["laps"][0] == {
        "runner": "a",
        "lap_s": 0.024,
        "lap_s_interval": [0.02, 0.03],
        "held_bytes": 2.5e9,
        "share": 0.25,
    }
    assert body["laps"][1]["note"] == "slow" and "share" not in body["laps"][1]


def test_csv_and_frames_hold_the_numbers_of_json():
    answer = Laps(inputs={}, laps=LAPS)
    rows = jsonable(answer.own_rows)
    assert csv_text(rows).splitlines()[0] == (
        "runner,lap_s,lap_s_low,lap_s_high,held_bytes,share,note"
    )
    wanted = frame(wanted_rows(answer), wanted_columns(answer))
    assert list(wanted.columns) == [
        "runner",
        "lap_s",
        "lap_s_low",
        "lap_s_high",
        "held_bytes",
        "share",
    ]
    bare = frame(wanted_rows(Laps(inputs={}, laps=LAPS[1:])), wanted_columns(answer))
    assert "share" not in bare.columns, "no row has one"
    assert wanted["lap_s"].tolist() == [0.024, 0.5]
    assert "note" in frame(rows, None).columns


def test_an_answer_without_a_row_that_can_be_run_ends():
    Laps(inputs={}, laps=[LAPS[0], Missing(runner="c")]).require()
    with pytest.raises(InfeasibleError, match="ill"):
        Laps(inputs={}, laps=[Missing(runner="c")]).require()


def test_an_attribute_without_a_column_is_refused():
    @dataclass(frozen=True, kw_only=True, slots=True)
    class Bare(Row):
        count: int

    with pytest.raises(TypeError, match=r"Bare\.count has no Column"):
        columns_of(Bare)
