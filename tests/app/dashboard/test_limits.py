"""Limits stand in the headline as the command line says them, and in the charts whose axis they concern."""

import json
import math
import shlex
from dataclasses import replace

import pytest

from app.cli.main import main
from app.dashboard.answers.map import BATCHES, CONTEXTS
from app.dashboard.answers.serving import answer_serving
from app.dashboard.pages import answered, completed
from app.dashboard.state import State
from app.render.charts.charts import digits

LIMITED = State(batch=8, slo_tpot=6.0)


def told(capsys, line, folder):
    capsys.readouterr()
    code = main([*shlex.split(line)[1:], "--json", "--out", str(folder)])
    return code, json.loads(capsys.readouterr().out)


def limits_of(cards):
    """The limit of every chart that draws one."""
    return {
        card.title: line
        for card in cards
        for line in card.figure["data"]
        if "limit: " in str(line.get("name"))
    }


@pytest.mark.parametrize("page", ["run", "map"])
@pytest.mark.parametrize("batch", [8, 300])
def test_the_headline_says_what_the_command_says(capsys, tmp_path, page, batch):
    answer = answered(replace(LIMITED, page=page, batch=batch))
    _, body = told(capsys, answer.command, tmp_path)
    (row,) = body["within_limits"]
    assert answer.headline.startswith(
        f"Within 6 ms a token at context 1,024: up to {row['users']:,} users decoding at once,"
        f" {digits(row['tokens_per_s'])} tokens/s,"
        f" ${digits(row['usd_per_million_tokens'])} per million tokens. "
    )
    lifts = " ".join(answer.notes)
    assert answer.headline.partition(". ")[0] not in lifts and "one user more would miss" in lifts
    assert row["more"] and all(f" {more['users']:,} with " in lifts for more in row["more"])


def test_what_serves_more_is_a_press_away():
    answer = answered(replace(LIMITED, page="run"))
    labels = [change.label for change in answer.changes]
    assert labels[0].startswith("batch ") and labels[1:] == ["fp8 cache", "fp8 weights", "tp 2"]
    most = answered(replace(LIMITED, page="run", **answer.changes[0].values))
    assert most.headline.partition(". ")[0] == answer.headline.partition(". ")[0]
    assert most.numbers, "something is allowed there"


def test_charts_over_batch_draw_the_limit():
    drawn = limits_of(completed(replace(LIMITED, page="run")).cards)
    assert set(drawn) == {"Throughput", "Time per token", "Step time"}
    assert not limits_of(completed(State(page="run")).cards)
    speed = limits_of(answered(replace(LIMITED, page="diffusion")).cards)["Speed against batch"]
    assert speed["y"] == pytest.approx([batch / 0.006 for batch in speed["x"]])


def test_the_map_draws_where_the_limit_is_kept():
    page = answered(replace(LIMITED, page="map"))
    line = limits_of(page.cards)["Best number of draft tokens K"]
    heat = page.cards[0].figure["data"][0]["z"]
    for x, y in zip(line["x"], line["y"], strict=True):
        column = [row[x] is not None for row in heat]
        if y is not None and CONTEXTS[math.ceil(y)] * BATCHES[x] < 200_000:  # memory holds more
            assert column[: math.floor(y) + 1] == [True] * (math.floor(y) + 1)
            assert not any(column[math.ceil(y) + 1 :])


def test_a_load_is_drawn_with_its_limits():
    state = State(page="serving", draft_tokens=3, count=12, prompt_tokens=64, output_tokens=16)
    answer = answer_serving(replace(state, slo_tpot=30.0, slo_ttft=400.0), lambda *told: None)
    drawn = limits_of(answer.cards)
    assert set(drawn["Time per output token against load"]["y"]) == {30.0}
    assert set(drawn["Time to first token against load"]["y"]) == {400.0}


def test_a_device_says_whether_it_keeps_the_limit(capsys, tmp_path):
    for limit, word in ((6.0, "within"), (2.0, "misses")):
        answer = answered(replace(LIMITED, page="hardware", slo_tpot=limit))
        _, body = told(capsys, answer.command, tmp_path / "a.json")
        assert body["predictions"][0]["meets_limits"] == (word == "within")
        assert word in dict(answer.numbers)["Time per token"]
