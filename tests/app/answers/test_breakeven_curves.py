"""`breakeven --curves` says where drafting stops to pay, the same in text, JSON, CSV and on the page."""

import csv
import json
import shlex

import pytest

from app.cli.main import main
from app.dashboard.answers.chains import with_length
from app.dashboard.answers.hardware import answer_hardware, asked_curves
from app.dashboard.state import State

ASKED = (
    *("breakeven", "--model", "llama-3.1-8b", "--device", "h100-sxm", "--method", "eagle-3"),
    *("--acceptance", "0.6", "--draft-tokens", "7", "--batch", "256", "--curves"),
)


def told(capsys, *words):
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_words_numbers_and_points_are_one_answer(capsys, tmp_path):
    body = told(capsys, *ASKED, "--csv", str(tmp_path / "c.csv"))
    over = {curve["over"]: curve for curve in body["curves"]}
    (rate,) = over["acceptance"]["crossings"]
    (bandwidth,) = over["bandwidth_bytes_per_s"]["crossings"]
    assert rate["value"] == pytest.approx(body["points"][0]["least_acceptance"])
    assert rate["pays_above"] and not bandwidth["pays_above"]
    assert over["acceptance"]["own"] == pytest.approx(0.6)
    assert over["acceptance"]["own_speedup"] == pytest.approx(body["points"][0]["speedup"])
    assert main(ASKED) == 0
    text = capsys.readouterr().out
    assert f"below {rate['value']:.3f} acceptance drafting loses" in text
    assert f"from {bandwidth['value'] / 1e12:.2f} TB/s on drafting loses" in text
    rows = list(csv.DictReader((tmp_path / "c.csv").read_text().splitlines()))
    for name, curve in over.items():
        own = [row for row in rows if row["over"] == name]
        for column, values in (("value", curve["values"]), ("speedup", curve["speedups"])):
            assert [float(row[column]) for row in own] == pytest.approx(values, rel=1e-6)


def test_without_curves_the_rows_are_the_points(capsys, tmp_path):
    body = told(capsys, *ASKED[:-1], "--csv", str(tmp_path / "c.csv"))
    assert "curves" not in body
    (row,) = csv.DictReader((tmp_path / "c.csv").read_text().splitlines())
    assert "least_acceptance" in row


def test_masked_blocks_have_no_curves(capsys):
    words = ("breakeven", "--model", "llada-8b", "--method", "fast-dllm", "--curves")
    assert main(words) == 2
    assert "--curves" in capsys.readouterr().err


@pytest.mark.parametrize(
    "state",
    [
        State(method="eagle-3", known_by="rate", acceptance="0.6", batch=256, draft_tokens=7),
        State(batch=8, bandwidth_gb_per_s=1675.0),
        State(method="n-gram", known_by="rate", acceptance="0.05", batch=256),
    ],
)
def test_the_hardware_page_draws_what_the_command_says(capsys, state):
    answer = answer_hardware(state)
    cards = {card.title: card for card in answer.cards if card.title.startswith("Gain")}
    asked = asked_curves(with_length(state)).line
    curves = told(capsys, *shlex.split(asked)[1:])["curves"]
    assert set(cards) == {"Gain over acceptance", "Gain over bandwidth"}
    for card, curve in zip(cards.values(), curves, strict=True):
        drawn = {line["name"]: line for line in card.figure["data"]}
        assert drawn[f"K = {curve['draft_tokens']}"]["y"] == pytest.approx(curve["speedups"])
        assert drawn["your question"]["y"] == pytest.approx([curve["own_speedup"]])
        assert len(drawn["break-even"]["x"]) == len(curve["crossings"])
        assert card.note.endswith(f"{dict(answer.numbers)[card.title]}.")
