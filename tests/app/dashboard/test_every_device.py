"""Every device at its best layout, and the cheapest of some for a load, as the command line
says."""

import json
import shlex

import pytest

from app.cli.main import main
from app.dashboard.answers.every_device import MOST_PLANNED, price_date
from app.dashboard.answers.hardware import answer_hardware
from app.dashboard.state import State, sold_devices

STATE = State(
    page="hardware",
    method="eagle-3",
    known_by="rate",
    batch=16,
    rate=20.0,
    slo_tpot=20.0,
    draft_tokens=3,
)


@pytest.fixture(scope="module")
def limited():
    return answer_hardware(STATE).behind()


def table(later, begins):
    return next(rows for title, rows in later.tables if title.startswith(begins))


def said(capsys, line):
    capsys.readouterr()
    code = main([*shlex.split(line)[1:], "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_cheapest_of_eight_devices_is_that_of_capacity(capsys, limited):
    plans = table(limited, "Devices for 20")
    assert MOST_PLANNED <= len(plans) <= MOST_PLANNED + 2
    dollars = [row["$ per hour"] for row in plans if row["devices"] is not None]
    assert dollars == sorted(dollars)
    code, told = said(capsys, table(limited, "What plans")[0]["command"])
    assert code == 0
    best = told["best"]
    assert (plans[0]["device"], plans[0]["devices"], plans[0]["layout"]) == (
        best["device"],
        best["devices"],
        f"tp {best['tp']}",
    )
    assert f"{best['devices']} × {best['device']}" in " ".join(limited.notes)


def test_every_device_has_a_row_cheapest_token_first(limited):
    rows = table(limited, "Every device at its best layout within 20 ms")
    assert {row["device"] for row in rows} == set(sold_devices())
    known = [row["$ per million tokens"] for row in rows if row["$ per million tokens"] is not None]
    assert known == sorted(known) and len(known) >= 8
    assert all(1000 / row["tokens/s per user"] <= 20.01 for row in rows if row["tokens/s per user"])
    assert all(row["price of"] for row in rows if row["$ per hour"] is not None)
    left_out = [row for row in rows if row["tokens/s per device"] is None]
    assert left_out and all(row["limited by"] for row in left_out)


def test_a_row_is_what_predict_says(capsys, limited):
    row = next(r for r in table(limited, "Every device") if r["device"] == "h100-sxm")
    tp = row["layout"].removeprefix("tp ")
    line = (
        f"rooftree predict --model llama-3.1-8b --device h100-sxm --tp {tp} --batch {row['batch']}"
        " --context 1024"
    )
    line += (
        f" --method eagle-3 --acceptance 0.7 --draft-tokens {0 if row['K'] == 'off' else row['K']}"
    )
    (point,) = said(capsys, line)[1]["predictions"]
    assert row["tokens/s per device"] * int(tp) == pytest.approx(point["tokens_per_s"], rel=1e-3)


def test_without_a_limit_the_fewest_devices_that_hold_the_batch():
    later = answer_hardware(
        State(
            page="hardware",
            method="eagle-3",
            known_by="rate",
            model="llama-3.1-70b",
            device="b200-sxm",
            batch=4,
        )
    ).behind()
    rows = {
        row["device"]: row for row in table(later, "Every device at its best layout at batch 4")
    }
    assert (rows["b200-sxm"]["layout"], rows["h200-sxm"]["layout"]) == ("tp 1", "tp 2")
    assert rows["h100-sxm"]["batch"] == 4


def test_names_in_the_chart_stand_apart_and_the_own_device_has_one():
    (points,) = answer_hardware(STATE).deferred().cards[0].figure["data"]
    assert points["text"][0] in ("h100-sxm", "a100-sxm-80")
    assert len(points["text"]) == len(points["textposition"]) == len(points["x"])


def test_prices_have_the_date_of_their_source():
    assert price_date("h100-sxm") == "10 March 2026"
    assert price_date("gh200-96") == "2025"
    assert price_date("mi355x") == ""
