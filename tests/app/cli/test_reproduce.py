"""`reproduce`: tables of published numbers in, predictions beside them out, and reasons where there
are none."""

import csv

import pytest

from app.answers.reproduction.reproduction import percentile
from real_runs.published_numbers.reading.table import COLUMNS

PLAIN = {
    "system": "Vanilla (in gpt-fast)",
    "source": "a page",
    "target": "Llama2-7B",
    "hardware": "A100-80GB",
    "n_gpus": "1",
    "precision": "fp16",
    "batch": "1",
    "prompt_len": "128",
    "value": "90",
    "unit": "tok/s",
    "completeness": "full",
}
TREE = PLAIN | {
    "system": "EAGLE-2",
    "tree_or_gamma": "dynamic tree 60 nodes depth 7 top-k 10",
    "alpha_or_tau": "tau=4.3",
    "value": "",
    "unit": "",
    "speedup": "3.0",
    "completeness": "partial",
}
LATER = TREE | {
    "system": "SAM-Decoding+EAGLE-2",
    "tree_or_gamma": "SAM + EAGLE-2 tree",
    "alpha_or_tau": "tau=4.6",
}
UNKNOWN = PLAIN | {
    "system": "Fastest decoding ever",
    "value": "",
    "speedup": "10",
    "completeness": "abstract",
}
REFINING = {
    "system": "dParallel",
    "source": "another page",
    "model": "LLaDA-8B-Instruct",
    "hardware": "1x H100",
    "precision": "bf16",
    "batch": "1",
    "prompt_len": "200",
    "gen_len": "256",
    "block_len": "32",
    "steps_baseline": "256",
    "steps": "32",
    "tps_baseline": "14",
    "tps": "110",
    "speedup": "8",
    "completeness": "high",
}


def write(path, kind, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=COLUMNS[kind])
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def drafting(tmp_path):
    return write(tmp_path / "drafting.csv", "drafting", [PLAIN, TREE, LATER, UNKNOWN])


@pytest.fixture
def refining(tmp_path):
    return write(tmp_path / "refining.csv", "refining", [REFINING])


def test_both_kinds_of_table_make_one_answer(rooftree, drafting, refining):
    done = rooftree("reproduce", "--rows", drafting, "--rows", refining, "--json", "--seed", "3")
    body = done.answer
    assert (done.code, done.err, body["schema"]) == (0, "", 4)
    assert body["inputs"] == {
        "names": [],
        "group": None,
        "rows": [str(drafting), str(refining)],
        "seed": 3,
    }
    assert [row["group"] for row in body["rows"]] == [
        "full",
        "partial",
        "partial",
        "headline",
        "full",
    ]
    assert [row["quantity"] for row in body["rows"]] == [
        "tok/s",
        "speedup",
        "speedup",
        "speedup",
        "tok/s",
    ]
    assert [(row["file"], row["line"]) for row in body["rows"]][-2:] == [
        (str(drafting), 5),
        (str(refining), 2),
    ]
    assert [(own["rows"], own["predicted"]) for own in body["groups"].values()] == [
        (2, 2),
        (2, 2),
        (1, 0),
    ]
    assert list(body["groups"]) == ["full", "partial", "headline"]
    for row in body["rows"]:
        assert (row["predicted"] is None) == bool(row["reason"]) == (row["error_ratio"] is None)
        if row["predicted"] is not None:
            assert row["error_ratio"] == pytest.approx(row["predicted"] / row["published"] - 1.0)


def test_numbers_of_a_group_follow_from_its_rows(rooftree, drafting, refining):
    body = rooftree("reproduce", "--rows", drafting, "--rows", refining, "--json").answer
    for group, own in body["groups"].items():
        errors = sorted(
            abs(row["error_ratio"])
            for row in body["rows"]
            if row["group"] == group and row["predicted"] is not None
        )
        assert own["predicted"] == len(errors)
        assert own["over_30_percent"] == sum(error > 0.3 for error in errors)
        assert own["absolute"]["rows"] + own["ratio"]["rows"] == own["rows"]
        if errors:
            assert own["median_error_ratio"] == pytest.approx(percentile(errors, 0.5))
            assert errors[0] <= own["median_error_ratio"] <= own["p90_error_ratio"] <= errors[-1]
        else:
            assert own["median_error_ratio"] is None
    assert body["groups"]["full"]["baselines"]["predicted"] == 1


def test_a_name_without_an_entry_says_so(rooftree, drafting):
    (row,) = rooftree("reproduce", "--rows", drafting, "--group", "headline", "--json").answer[
        "rows"
    ]
    assert "Fastest decoding ever: no entry of the catalogue of that name" in row["reason"]
    assert row["method"] is None


def test_part_of_a_table_is_predicted_as_in_the_whole(rooftree, drafting):
    whole = rooftree("reproduce", "--rows", drafting, "--json").answer["rows"]
    part = rooftree("reproduce", "--rows", drafting, "--group", "partial", "--json").answer["rows"]
    assert part == whole[1:3]
    named = rooftree("reproduce", "eagle-2", "--rows", drafting, "--json").answer["rows"]
    assert named == whole[1:3]
    plain = rooftree("reproduce", "plain-decoding", "--rows", drafting, "--json").answer["rows"]
    assert plain == whole[:1]


def test_without_tables_the_catalogues_own_numbers_are_asked_about(rooftree):
    body = rooftree("reproduce", "eagle-3", "sequoia", "--json").answer
    assert {row["method"] for row in body["rows"] if row["method"]} == {"eagle-3", "sequoia"}
    assert all(row["file"] is None and row["line"] is None for row in body["rows"])
    assert any(row["predicted"] is not None for row in body["rows"])


def test_what_is_shown(rooftree, drafting, refining):
    shown = rooftree("reproduce", "--rows", drafting, "--rows", refining)
    assert shown.code == 0
    for words in (
        "published numbers",
        "by how much is stated",
        "not predicted",
        "no entry of the catalogue",
    ):
        assert words in shown.out
    assert rooftree("reproduce", "--rows", drafting, "--quiet").out == ""


def test_a_group_that_is_empty_has_nothing_to_show(rooftree, refining):
    shown = rooftree("reproduce", "--rows", refining, "--group", "headline")
    assert (shown.code, "no published number is asked about" in shown.out) == (0, True)


def test_rows_leave_as_a_table_and_a_page(rooftree, drafting, refining, tmp_path):
    table, page = tmp_path / "rows.csv", tmp_path / "page.html"
    words = ("reproduce", "--rows", drafting, "--rows", refining, "--csv", table)
    assert rooftree(*words, "--quiet").code == 0
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["system"] for row in rows] == [
        each["system"] for each in (PLAIN, TREE, LATER, UNKNOWN, REFINING)
    ]
    assert rows[3]["predicted"] == ""
    pytest.importorskip("plotly")
    assert rooftree(*words, "--html", page, "--quiet").code == 0
    assert "Fastest decoding ever" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--group", "most"), "--group: must be one of full, partial, headline"),
        (("--rows", "absent.csv"), "absent.csv"),
        (("--rows", "COLUMNS"), "columns.csv: system"),
        (("eagle-9",), "eagle-9"),
        (("--html", "."), "--html"),
    ],
)
def test_bad_questions_are_refused(rooftree, tmp_path, words, told):
    (tmp_path / "columns.csv").write_text("target,value\n", encoding="utf-8")
    done = rooftree(
        "reproduce", *(tmp_path / "columns.csv" if word == "COLUMNS" else word for word in words)
    )
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert "Traceback" not in done.err
