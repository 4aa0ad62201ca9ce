"""A user at a terminal: commands as they are typed, in an empty folder, with no network."""

import json
import shlex

import pytest

from tests.app.conftest import run


class Typed:
    """How a command that was typed ended."""

    def __init__(self, ended):
        self.code, self.out, self.err = ended.code, ended.out, ended.err

    @property
    def lines(self):
        return self.out.splitlines()

    @property
    def answer(self):
        return json.loads(self.out)


@pytest.fixture
def user(tmp_path, monkeypatch):
    """Type a command line that begins with `rooftree`; it must succeed unless another exit code is
    expected."""
    monkeypatch.chdir(tmp_path)

    def typed(line, code=0):
        words = shlex.split(line)
        assert words[0] == "rooftree"
        ended = run(*words[1:])
        assert ended.code == code, (line, ended.err, ended.out)
        return Typed(ended)

    return typed
