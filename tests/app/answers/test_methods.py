"""Entries in words, their citations, and one row for every published system."""

import ast
import csv
from functools import cache
from pathlib import Path

import pytest

from app.answers.methods.coverage import coverage
from app.answers.methods.words import bibtex, changes, explained, trace_level
from costmodel.method_library import load_method, method_names
from real_runs.published_numbers.predict import predictions
from real_runs.published_numbers.reported import reported_rows
from tests.every import every

ROOT = Path(__file__).parents[3]


@pytest.fixture
def systems(published):
    """By published system, whether its text is that of the target as its source says: `kept`,
    `changed`, or empty where it does not say."""
    with (published / "systems.csv").open(newline="", encoding="utf-8") as lines:
        return {row["system"]: row["text"] for row in csv.DictReader(lines)}


def test_every_published_system_is_one_entry(systems):
    names = [row.system for row in coverage()]
    assert systems and not systems.keys() - set(names)
    assert len(names) == len(set(names)), "a system has one entry"


def test_coverage_says_why():
    rows = coverage()
    assert {row.status for row in rows} <= {"works", "priced", "out of scope", "needs"}
    assert all(row.detail for row in rows)
    for row in rows:
        method = load_method(row.slug)
        assert (row.status in ("out of scope", "needs")) == bool(
            method.out_of_scope or method.needs
        )
        assert (row.status == "works") == bool(method.reproduced or within(row.slug))
        assert (row.status == "works") >= bool(method.reproduced)


@cache
def within(slug):
    """Whether a number of an entry that has all its inputs is predicted within 30 %."""
    own = predictions([row for row in reported_rows([slug]) if row.group == "full"])
    return any(each.error_ratio is not None and abs(each.error_ratio) <= 0.3 for each in own)


def test_a_system_works_by_its_numbers_and_says_which():
    rows = {row.slug: row for row in coverage()}
    assert "3.1 published (arXiv:2412.12639, table 1)" in rows["falcon"].detail
    assert rows["speculative-decoding"].detail.endswith("::test_speculative_decoding_on_t5")
    assert not [row for row in rows.values() if row.status == "needs"]


@every("slug", [slug for slug in method_names() if load_method(slug).reproduced])
def test_a_number_that_is_called_reproduced_is_held_by_a_test(slug):
    for test in load_method(slug).reproduced:
        file, _, name = test.partition("::")
        module = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        functions = {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
        assert name.startswith("test_") and name in functions, test


@every("slug", method_names())
def test_every_entry_explains_and_cites_itself(slug):
    method = load_method(slug)
    lines = explained(method)
    assert lines and all(line.endswith((".", ").")) for line in lines)
    assert any(line.startswith(("Text: ", "Predictions refuse it: ")) for line in lines)
    cited = bibtex(method)
    assert cited.startswith(f"@misc{{{slug},\n") and cited.count("{") == cited.count("}")
    assert method.citation.title in cited


def test_sentences_link_the_mechanism():
    for slug in method_names():
        for line in explained(load_method(slug)):
            for word in line.replace("(", " ").replace(")", " ").replace(",", " ").split():
                if word.startswith("costmodel/"):
                    assert (ROOT / word.rstrip(".")).exists() or (ROOT / word).exists(), (
                        slug,
                        word,
                    )


def test_recordings_of_the_level_that_a_verifier_needs():
    levels = {
        "n-gram": 1,
        "medusa": 2,
        "speculative-decoding": 3,
        "eagle-2": 3,
        "kangaroo": 3,
        "llada": 0,
        "gear": 0,
    }
    assert {slug: trace_level(load_method(slug)) for slug in levels} == levels


def test_a_citation_names_others_as_bibtex_does():
    assert "author = {Chen and others}" in bibtex(load_method("speculative-sampling"))
    assert "author = {Spector and Re}" in bibtex(load_method("staged-speculative-decoding"))
    assert "author" not in bibtex(load_method("hydragen"))


@every("slug", [slug for slug in method_names() if not load_method(slug).refusal])
def test_an_entry_that_changes_the_text_says_by_what(slug):
    method = load_method(slug)
    if method.exactness == "lossy":
        assert changes(method)
        assert f"the text changes: {changes(method)[0]}" in " ".join(explained(method))
    elif (
        method.exactness != "own_weights"
    ):  # whose text is that of a target which itself has the changes
        assert not changes(method)


def test_entries_change_the_text_where_their_sources_say_so(systems):
    methods = {
        system: load_method(slug) for slug in method_names() for system in load_method(slug).systems
    }
    checked = set()
    for system, text in systems.items():
        method = methods[system]
        if text and not method.refusal:
            assert (method.exactness == "lossy") == (text == "changed"), system
            checked.add(text)
    assert checked == {"kept", "changed"}
