"""The Pareto page: points are those of `predict`, the own point is marked, and limits are met."""

import csv
import io
import json
import re
import shlex

import pytest

from app.cli.main import main
from app.dashboard.answers.pareto import answer_pareto
from app.dashboard.answers.run.page import answer_run
from app.dashboard.state import State, with_values
from app.render.charts.charts import digits
from hardware_profiles.errors import InfeasibleError

RANKED = "smollm2-135m--early-exit--greedy"


def predicted(capsys, line):
    capsys.readouterr()
    assert main([*shlex.split(line)[1:], "--json"]) == 0
    (point,) = json.loads(capsys.readouterr().out)["predictions"]
    return point


@pytest.mark.parametrize(
    "state",
    [
        State(batch=64),
        State(model="qwen3-30b-a3b", device="h200-sxm", batch=96, engine="sglang"),
        State(trace=RANKED, batch=8, tp=2),
    ],
)
def test_the_commands_of_the_front_give_its_numbers(capsys, state):
    rows = answer_pareto(state).tables[0][1]
    assert len(rows) >= 2
    for row in (rows[0], rows[len(rows) // 2], rows[-1]):
        point = predicted(capsys, row["command"])
        assert row["tokens/s per user"] * row["batch"] == pytest.approx(
            point["tokens_per_s"], rel=2e-3
        )
        assert row["tokens/s per device"] * row["devices"] == pytest.approx(
            point["tokens_per_s"], rel=2e-3
        )


def test_the_own_point_is_marked_and_its_command_given(capsys):
    answer = answer_pareto(State(batch=24, tp=2))
    (star,) = [line for line in answer.cards[0].figure["data"] if line["name"] == "your point"]
    assert star["customdata"] == [answer.command]
    point = predicted(capsys, answer.command)
    assert star["y"][0] == pytest.approx(point["tokens_per_s"] / 2)
    assert "--tp 2" in answer.command and "--batch 24" in answer.command


@pytest.mark.parametrize("batch", [1, 64])
def test_the_own_point_drafts_as_many_tokens_as_the_recommendation(batch):
    state = State(batch=batch)
    drafts = dict(answer_run(state).numbers)["Speculation"].rpartition(":")[2]
    assert f"K = {drafts})" in answer_pareto(state).headline


def test_the_table_holds_the_whole_front():
    answer = answer_pareto(State(batch=8))
    (front,) = [line for line in answer.cards[0].figure["data"] if line["name"] == "front"]
    assert len(answer.tables[0][1]) == len(front["x"])


def test_every_point_that_can_be_pressed_has_its_command():
    for line in answer_pareto(State(batch=24)).cards[0].figure["data"]:
        if line["name"] != "front" and "limit" not in line["name"]:
            assert len(line["customdata"]) == len(line["x"]) == len(line["hovertext"])


def test_a_limit_moves_the_choice_and_is_drawn():
    answer = answer_pareto(State(model="llama-3.1-70b", tp=4, batch=64, slo_tpot=15.0))
    (wall,) = [line for line in answer.cards[0].figure["data"] if "limit" in line["name"]]
    assert wall["x"] == pytest.approx([1000 / 15] * 2)
    files = list(csv.DictReader(io.StringIO(answer.files["pareto.csv"]().decode())))
    most = max(
        float(r["tokens/s per device"]) for r in files if float(r["time per token (ms)"]) <= 15.0
    )
    assert float(
        dict(answer.numbers)["Most per device at that pace"].split()[0].replace(",", "")
    ) == pytest.approx(most, rel=5e-3)
    assert "no layout that was tried" in answer_pareto(State(slo_tpot=0.01)).headline


@pytest.mark.parametrize("limit_ms", [8.0, 20.0])
def test_users_within_a_limit_are_counted_to_the_last_one(capsys, limit_ms):
    answer = answer_pareto(State(model="llama-3.1-8b", slo_tpot=limit_ms))
    users = int(
        re.search(r"serves up to ([\d,]+) users decoding at once", answer.headline)[1].replace(
            ",", ""
        )
    )
    assert answer.headline.startswith(f"Within {limit_ms:g} ms a token tp 1 ")
    point = predicted(capsys, answer.command)
    assert point["batch"] == users and point["step_s"] / point["tokens_per_step"] <= limit_ms / 1e3
    assert f"with {digits(point['tokens_per_s'])} tokens/s" in answer.headline
    for length in range(8):
        words = shlex.split(answer.command)
        words[words.index("--batch") + 1] = str(users + 1)
        words[words.index("--draft-tokens") + 1] = str(length)
        more = predicted(capsys, shlex.join(words))
        assert more["step_s"] / more["tokens_per_step"] > limit_ms / 1e3, length
    assert answer.notes[0] == "One user more would miss the limit."
    assert re.search(r"More users within the limit: tp 2 up to \d+, tp 4", answer.notes[1])


def test_with_a_limit_the_mark_is_the_most_users_whatever_batch_is_asked_about():
    answer = answer_pareto(State(page="pareto", batch=16, tp=2, slo_tpot=10.0))
    (star,) = [line for line in answer.cards[0].figure["data"] if "customdata" in line][-1:]
    assert star["name"] == "most users of tp 2"
    (users,) = re.findall(r"serves up to ([\d,]+) users", answer.headline)
    assert f"--batch {users.replace(',', '')} " in star["customdata"][0] == answer.command


def test_the_engine_runs_what_the_headline_shows_where_nothing_keeps_a_limit():
    answer = answer_pareto(State(page="pareto", batch=8, slo_tpot=1.0))
    (start,) = answer.engines
    layout, batch = re.search(r"the fastest \((tp \d+), batch (\d+),", answer.headline).groups()
    assert start.title.startswith(f"{layout}, batch {batch}: ")
    assert f"--batch {batch} " in answer.command


def test_memory_is_said_to_stop_what_a_loose_limit_does_not():
    assert answer_pareto(State(slo_tpot=500.0)).notes[0].startswith("Memory is full")


def test_a_point_of_the_front_becomes_the_question():
    answer = answer_pareto(State(batch=24))
    assert 2 <= len(answer.changes) <= 6
    front = {(row["devices"], row["batch"]) for row in answer.tables[0][1]}
    for change in answer.changes:
        assert (change.values["tp"], change.values["batch"]) in front
        asked = with_values(State(page="pareto"), change.values)
        (star,) = [
            line
            for line in answer_pareto(asked).cards[0].figure["data"]
            if line["name"] == "your point"
        ]
        assert f"{digits(star['x'][0])} tokens/s per user" in change.label


def test_the_own_point_has_its_engines_command_its_pace_and_its_price():
    answer = answer_pareto(State(batch=24, tp=2))
    (start,) = answer.engines
    assert start.title.startswith("tp 2, batch 24: eagle-3") and "parallel-size 2" in start.command
    words = [word for line in answer.cards[0].figure["data"] for word in line.get("hovertext", ())]
    assert words and all("ms a token" in word and "per million tokens" in word for word in words)


def test_a_batch_that_does_not_fit_is_said_and_the_others_are_drawn():
    answer = answer_pareto(State(model="llama-3.1-70b", tp=2, batch=512))
    assert answer.headline.startswith("Batch 512 does not fit on tp 2")
    assert answer.cards[0].figure["data"]
    assert "tp 1 (not one request fits)" in answer.notes[-1]


def test_what_fits_no_layout_is_said():
    with pytest.raises(InfeasibleError, match="fits no layout"):
        answer_pareto(State(model="llama-3.1-405b", device="l4"))
