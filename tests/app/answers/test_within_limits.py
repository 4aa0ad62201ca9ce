"""`optimize` says first how many users its limits allow, the same in text, JSON and the report."""

import json

import pytest

from app.cli.main import main

ASKED = ("optimize", "--model", "llama-3.1-8b", "--device", "h100-sxm", "--drafter", "eagle-3:0.7")


@pytest.fixture
def told(capsys, tmp_path):
    def tell(*more, json_object=True):
        code = main([*ASKED, *more, "--out", str(tmp_path), *(["--json"] * json_object)])
        out = capsys.readouterr().out
        return code, json.loads(out) if json_object else out

    return tell


def test_the_users_hold_where_they_are_asked_about_and_one_more_does_not(told):
    _, body = told("--slo-tpot", "6", "--batch", "8")
    (row,) = body["within_limits"]
    code, there = told("--slo-tpot", "6", "--batch", str(row["users"]))
    assert code == 0
    (best,) = there["choices"]
    for name in ("draft", "tokens_per_s", "tpot_s"):
        assert (
            best[name] == pytest.approx(row[name]) if name != "draft" else best[name] == row[name]
        )
    code, beyond = told("--slo-tpot", "6", "--batch", str(row["users"] + 1))
    assert code == 3 and beyond["within_limits"] == [row]
    nearest = beyond["unmet"][0]["nearest"]
    assert {"--batch": row["users"]} in nearest


def test_text_says_it_first_and_the_report_too(told, tmp_path):
    _, body = told("--slo-tpot", "6", "--slo-ttft", "300", "--batch", "8")
    (row,) = body["within_limits"]
    _, text = told("--slo-tpot", "6", "--slo-ttft", "300", "--batch", "8", json_object=False)
    words = " ".join(text.split())
    first = "within 6 ms a token and 300 ms to the first token at context 1,024: up to"
    assert words.startswith(f"{first} {row['users']:,} users decoding at once, ")
    assert "per million tokens" in words and "one user more would miss the limit" in words
    report = (tmp_path / "report.html").read_text()
    assert f"up to {row['users']:,} users decoding at once" in report
    assert "limit: 6 ms a token" in report


def test_every_change_serves_as_many_when_it_is_asked_about(told):
    _, body = told("--slo-tpot", "6", "--batch", "8")
    (row,) = body["within_limits"]
    assert [list(change["change"]) for change in row["more"]] == [
        ["--kv-dtype"],
        ["--dtype"],
        ["--tp"],
    ]
    for change in row["more"]:
        ((option, value),) = change["change"].items()
        _, changed = told("--slo-tpot", "6", "--batch", "8", option, str(value))
        (then,) = changed["within_limits"]
        assert (then["users"], then["tokens_per_s"]) == (change["users"], change["tokens_per_s"])
        assert then["users"] > row["users"]


def test_every_cell_and_context_has_its_own_and_none_without_a_limit(told):
    _, body = told("--device", "h100-sxm,l4", "--context", "512,4096", "--slo-tpot", "6")
    rows = body["within_limits"]
    assert [(row["device"], row["context"]) for row in rows] == [
        (device, context) for device in ("h100-sxm", "l4") for context in (512, 4096)
    ]
    assert rows[0]["users"] > rows[1]["users"] > rows[3]["users"] == 0
    assert told("--batch", "8")[1]["within_limits"] == []


def test_a_limit_that_nobody_can_meet_says_so(told):
    code, text = told("--slo-tpot", "0.1", "--batch", "1", json_object=False)
    assert code == 3
    assert text.startswith("within 0.1 ms a token at context 1,024: no user, whatever is run")
