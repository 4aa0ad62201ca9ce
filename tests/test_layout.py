"""The repository keeps its own rules of form, which only its text can tell: folders, names, words."""

import ast
import re
import subprocess

import pytest

PACKAGES = ("hardware_profiles", "traces", "costmodel", "simulator", "real_runs", "app")
FORBIDDEN_NAMES = re.compile(r"(^|_)(utils?|helpers?|manager)(_|$)")


def tracked(root):
    listed = subprocess.run(
        ["git", "ls-files"], cwd=root, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [root / line for line in listed.stdout.splitlines() if (root / line).is_file()]


def test_top_level_folders_are_the_fixed_ones(root):
    folders = {
        path.relative_to(root).parts[0]
        for path in tracked(root)
        if len(path.relative_to(root).parts) > 1
    }
    assert {name for name in folders if not name.startswith(".")} <= {*PACKAGES, "tests"}


def test_files_are_well_named(root):
    for path in tracked(root):
        if path.suffix != ".py":
            continue
        assert not FORBIDDEN_NAMES.search(path.stem), path


def test_every_module_says_what_it_is_for(root):
    for package in PACKAGES:
        for path in (root / package).rglob("*.py"):
            assert ast.get_docstring(ast.parse(path.read_text())), path


def test_nothing_under_app_bears_a_top_level_name(root):
    for path in (root / "app").rglob("*.py"):
        if path.parent.name != "verbs":
            assert path.stem not in PACKAGES, path


def test_invariants_name_tests_that_exist(root):
    """Every test named in INVARIANTS.md is defined somewhere below tests/."""
    text = (root / "tests" / "INVARIANTS.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", text))
    defined = set()
    for path in (root / "tests").rglob("test_*.py"):
        defined |= set(re.findall(r"def (test_\w+)", path.read_text()))
    assert len(named) >= 30
    assert named <= defined, sorted(named - defined)


# Each word on the left has a usual word of the field, or a concrete noun, that says the same
# without a glossary.
UNUSUAL_WORDS = {
    "give": "preempt",
    "filling": "prefill",
    "apart": "disaggregated, separate",
    "narrow": "quantised",
    "kept": "accepted",
    "made": "generated",
    "told": "stated, reported",
    "each": "a noun for what it is",
    "found": "a noun for what it is",
    "shop": "store",
    "later": "deferred",
    "ahead": "beforehand, during verification",
    "board": "component",
    "chance": "probability",
}
USUAL_HERE = {
    "board_power_w": "the board of a device is what its makers call it",
    "first_of_each_kind": "a determiner, not a thing",
    "gain_by_chance_ratio": "a key of `rooftree tree --json`, which callers read",
    "kept_ratio": "a key of `rooftree methods --json`, which callers read",
}


def public_words(tree):
    """Names that a reader of other modules meets: functions, classes, their arguments, fields and
    constants."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
                yield from (
                    item.arg
                    for item in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                )
            case ast.ClassDef():
                yield node.name
                yield from assigned(node)
            case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Store()):
                yield node.attr
    yield from assigned(tree)


def assigned(node):
    for line in node.body:
        targets = (
            line.targets
            if isinstance(line, ast.Assign)
            else [line.target]
            if isinstance(line, ast.AnnAssign)
            else []
        )
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def words(name):
    return {part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def test_names_are_the_usual_words_of_the_field(root):
    """A name that needs a glossary of its own does not return: modules, functions, classes,
    arguments, fields."""
    wrong = set()
    for path in tracked(root):
        if path.suffix != ".py" or path.relative_to(root).parts[0] not in PACKAGES:
            continue
        for name in (path.stem, *public_words(ast.parse(path.read_text()))):
            if name not in USUAL_HERE and (unusual := words(name) & UNUSUAL_WORDS.keys()):
                wrong.add(
                    f"{path.relative_to(root)}: {name}"
                    f" ({', '.join(UNUSUAL_WORDS[word] for word in unusual)})"
                )
    assert not wrong, sorted(wrong)


def test_unusual_words_are_seen_in_any_spelling():
    source = (
        "class HeadShop:\n    kept_ratio: float\n\ndef _give_way(found):\n    self.chance ="
        " 1\n\nLATER = 1\n"
    )
    seen = (
        set().union(*(words(name) for name in public_words(ast.parse(source))))
        & UNUSUAL_WORDS.keys()
    )
    assert seen == {"shop", "kept", "give", "found", "chance", "later"}
