"""A file is one configuration, or an answer of which one is taken."""

import json
from dataclasses import replace

import pytest

from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.configuration.file import MAX_FILE_BYTES, read_configuration
from costmodel.method import Stop
from hardware_profiles.errors import InputError
from traces.kinds.tree import Tree

WHERE = DeploymentNames(model="gpt2", device="l4")
CHAIN = DecodingConfiguration(
    deployment=WHERE, method="n-gram", draft_tokens=4, batch=1, context=512
)
OFF = DecodingConfiguration(deployment=WHERE, method="n-gram", batch=64, context=512)
TREE = DecodingConfiguration(
    deployment=WHERE,
    method="eagle-3",
    draft_tokens=2,
    shape=Tree.from_paths([(0,), (1,)]),
    batch=1,
    context=2048,
)
RANGES = DecodingConfiguration(
    deployment=WHERE, method="n-gram", draft_tokens=5, schedule=((1, 8, 5), (9, 64, 0)), context=512
)
TREES_TOO = DecodingConfiguration(
    deployment=WHERE, method="eagle-3", draft_tokens=3, schedule=((1, 64, 3),)
)


def row(chosen, context=None):
    given = {"batch": chosen.batch, "context": context or chosen.context, "method": chosen.method}
    return given | {"configuration": chosen.to_json()}


@pytest.fixture
def write(tmp_path):
    def written(document):
        path = tmp_path / "chosen.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return path

    return written


@pytest.fixture
def answer(write):
    schedules = [row(RANGES), row(TREES_TOO, context=2048)]
    return write(
        {"schema": 1, "choices": [row(CHAIN), row(OFF), row(TREE)], "schedules": schedules}
    )


def test_a_configuration_is_read_back(write):
    assert read_configuration(write(TREE.to_json())) == TREE


def test_chains_come_as_their_schedule_and_trees_as_they_are(answer):
    assert read_configuration(answer) == read_configuration(answer, batch=64) == RANGES
    assert read_configuration(answer, scheduled=False) == CHAIN
    assert read_configuration(answer, batch=64, context=512, scheduled=False) == OFF
    assert read_configuration(answer, context=2048) == TREE
    assert read_configuration(answer, context=2048, scheduled=True) == TREES_TOO


def test_a_chain_that_ends_early_keeps_its_rule(write):
    stopped = replace(CHAIN, stop=Stop(rule="probability", at=0.4))
    path = write({"schema": 1, "choices": [row(stopped)], "schedules": [row(RANGES)]})
    assert (
        read_configuration(path) == stopped and read_configuration(path, scheduled=True) == RANGES
    )


def test_a_choice_that_is_not_there_is_named_with_those_that_are(answer):
    with pytest.raises(InputError, match=r"\(1, 2048\)") as caught:
        read_configuration(answer, batch=7)
    assert caught.value.key == "choices" and caught.value.file == str(answer)


@pytest.mark.parametrize(
    ("document", "rule"),
    [
        ("{", "readable JSON"),
        ("[1]", "configuration or an answer"),
        ("[" * 100_000, "readable JSON"),
        ({"schema": 1, "choices": [{"batch": 1, "context": 8}]}, "older version"),
        ({"schema": 1, "choices": {}}, "must be a list"),
        ({"schema": 1, "choices": [1]}, "must be a list"),
        ({"schema": 5, "choices": [{}]}, "schema 1"),
        ({"schema": 1, "choices": []}, "no such choice"),
        ({"schema": 1, "choices": [{"configuration": {"schema": 1}}]}, "deployment"),
        ({"method": "n-gram"}, "schema 1"),
    ],
)
def test_a_foreign_file_is_refused(write, document, rule):
    with pytest.raises(InputError, match=rule) as caught:
        read_configuration(write(document), scheduled=False)
    assert caught.value.file == str(write(document))


def test_files_are_bounded(tmp_path):
    path = tmp_path / "large.json"
    path.write_bytes(b" " * (MAX_FILE_BYTES + 1))
    with pytest.raises(InputError, match="at most"):
        read_configuration(path)
    with pytest.raises(InputError, match="no such file"):
        read_configuration(tmp_path / "absent.json")
