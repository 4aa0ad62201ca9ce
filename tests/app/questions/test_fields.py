"""Every field of a question stands once, is read, and means the same through every door."""

import ast
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import app
from app.cli.main import VERBS, command
from app.questions import fields as table
from app.questions.field import Group, begins_of, fields_of
from hardware_profiles.errors import InputError
from rooftree.questions import option_names

OF_SCREENS = ("json", "quiet")
ROOT = Path(app.__file__).parent.parent
READ_BY_THE_DOOR = {"as_family", "plot"}


@cache
def parsed(module):
    """The syntax tree of a module of the app; None where there is none of that name."""
    path = ROOT / module.replace(".", "/")
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if module.startswith("app.") and file.exists():
            return ast.parse(file.read_text(encoding="utf-8"))
    return None


@cache
def reached_from(module):
    """Modules of the app that a module imports, and those that these import."""
    reached, waiting = set(), [module]
    while waiting:
        name = waiting.pop()
        if name in reached or (tree := parsed(name)) is None:
            continue
        reached.add(name)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                waiting += [node.module, *(f"{node.module}.{part.name}" for part in node.names)]
            elif isinstance(node, ast.Import):
                waiting += [part.name for part in node.names]
    return reached


@cache
def names_read_by(module):
    """Attributes that a module and those below it load, and the texts in them, by which records are
    taken apart."""
    nodes = [node for name in reached_from(module) for node in ast.walk(parsed(name))]
    loaded = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    return loaded | {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


@pytest.mark.parametrize("words", VERBS)
def test_every_field_is_read(words):
    """By the module that answers the verb, or one that it imports. A rule of form: an option that no
    line of code names is none; what an option does is tested where its verb is."""
    verb = VERBS[words]
    unread = {f.name for f in fields_of(verb)} - names_read_by(verb.answered_by)
    assert unread <= {*READ_BY_THE_DOOR, *OF_SCREENS, "csv", "out", "seed"}, unread


def test_a_field_that_nothing_reads_is_found():
    read = names_read_by(VERBS["simulate"].answered_by)
    assert "per_request" in read and "an_option_that_nothing_reads" not in read


@pytest.mark.parametrize("words", VERBS)
def test_doors_have_the_same_fields(words):
    found = command()
    for word in words.split():
        found = found.commands[word]
    options = {
        option for parameter in found.params for option in parameter.opts if option.startswith("--")
    }
    wanted = [f for f in fields_of(VERBS[words]) if not f.row.argument]
    assert options - {"--help", "--help-all"} == {f.option for f in wanted} | {
        f.row.also for f in wanted if f.row.also.startswith("--")
    }
    assert option_names(words) == [f.keyword for f in wanted]


def test_help_has_a_panel_for_every_group_in_order(capsys):
    from app.cli.main import main

    assert main(["optimize", "--help-all"]) == 0
    shown = capsys.readouterr().out
    titles = [f"\n{group}:\n" for group in Group]
    places = [shown.index(title) for title in titles]
    assert places == sorted(places)
    assert shown.index("--model ") < shown.index("--batch ") < shown.index("--device ")


@pytest.mark.parametrize("words", [words for words, verb in VERBS.items() if begins_of(verb)])
def test_help_begins_with_few_options_and_says_where_all_are(words, capsys):
    from app.cli.main import main

    verb = VERBS[words]
    begins = begins_of(verb)
    named = {f.name: f.option for f in fields_of(verb)}
    assert set(begins) <= named.keys() and 8 <= len(begins) <= 16
    assert main([*words.split(), "--help"]) == 0
    shown = set(
        re.findall(r"(?m)^  (?:-\w, )?(--[a-z-]+)(?=,| <| [A-Z]|  |$)", capsys.readouterr().out)
    )
    arguments = {f.option for f in fields_of(verb) if f.row.argument}
    assert shown - {"--help", "--help-all"} == {named[name] for name in begins} - arguments
    assert "--help-all" in shown


@pytest.mark.parametrize("words", [words for words, verb in VERBS.items() if not begins_of(verb)])
def test_a_verb_of_few_options_shows_them_all(words):
    assert len(fields_of(VERBS[words])) <= 14


def test_a_row_of_the_table_stands_once():
    rows = {row for hint in vars(table).values() for row in getattr(hint, "__metadata__", ())}
    used = {f.row for verb in VERBS.values() for f in fields_of(verb)}
    assert rows <= used, "a row that no verb takes"
    assert len({(row.meaning, row.group) for row in rows}) == len(rows) > 40


def test_meanings_that_repeat_are_rows_of_the_table():
    """Two verbs that say the same of a field of one name take the same row."""
    seen = defaultdict(set)
    for verb in VERBS.values():
        for f in fields_of(verb):
            seen[f.option, f.row.meaning].add(f.row)
    assert {key: rows for key, rows in seen.items() if len(rows) > 1} == {}


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("batch", [8, 1], (1, 8)),
        ("batch", 4, (4,)),
        ("tp", "2", 2),
        ("seed", 3, 3),
        ("overrides", {"device.power_w": 300}, ["device.power_w=300"]),
        ("drafter", "eagle-3:0.7", ["eagle-3:0.7"]),
        ("config", "a.json", Path("a.json")),
        ("explain", 1, True),
    ],
)
def test_values_of_python_are_read_as_the_type_of_the_field(name, value, read):
    (field,) = (f for f in fields_of(VERBS["predict"]) if f.name == name)
    assert field.read(value, key=name) == read


@pytest.mark.parametrize(("name", "value"), [("tp", "two"), ("seed", -1), ("host_weights", 2.0)])
def test_values_out_of_range_are_refused(name, value):
    (field,) = (f for f in fields_of(VERBS["predict"]) if f.name == name)
    with pytest.raises(InputError, match=f"^{field.keyword}: must be"):
        field.read(value, key=field.keyword)


def test_a_field_without_a_row_is_refused():
    @dataclass(frozen=True)
    class Record:
        count: int

    with pytest.raises(TypeError, match="count has no Field"):
        fields_of(Record)


def test_screens_are_not_asked_for_in_python():
    import rooftree

    for name in OF_SCREENS:
        with pytest.raises(InputError, match=f"^{name}: rooftree.predict has no such option"):
            rooftree.predict(model="llama-3.1-8b", **{name: True})
