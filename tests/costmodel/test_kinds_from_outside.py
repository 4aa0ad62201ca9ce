"""A way of decoding that is not shipped: one file adds it, and every verb that can ask about it
knows it.

Both are made up. `echo` drafts, verifies and commits with the parts that there are: the token before,
once more, which the target verifies. `skip-token` has no drafter: a table on the host adds a token
that nothing verifies, in a share of the steps, and has a record and a cost of its own.
"""

import json
import subprocess
import sys

import pytest

from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.passes.forward import pass_cost

pytestmark = pytest.mark.heavy

ECHO = '''
"""Echo: the token before, once more."""

from costmodel.method import Citation, Draft, Method, Shape, Verify

METHOD = Method(
    slug="echo",
    title="Echo",
    citation=Citation(authors="Nobody", title="Echo", year=2026),
    group="model free",
    read="paper",
    draft=(Draft(by="lookup", may_propose_nothing=True),),
    shape=Shape(kind="chain"),
    verify=Verify(rule="match"),
)
'''
SKIP_TOKEN = '''
"""Skip-token: a table adds a token that nothing verifies."""

from dataclasses import dataclass
from typing import ClassVar

from costmodel.answers.steps.advance_step import AdvanceQuestion, advance_step
from costmodel.method import Citation, Method
from costmodel.pace import Advance
from costmodel.passes.forward import pass_cost


@dataclass(frozen=True, kw_only=True, slots=True)
class SkippedTokens(Advance):
    """A share of the steps brings a second token, whose cached values a later pass computes."""

    text_changes: ClassVar[str] = "a table adds tokens that nothing verifies"
    ratio: float

    @property
    def tokens_per_step(self):
        return 1.0 + self.ratio

    @property
    def summary(self):
        return f"Skips: a table adds a token in {self.ratio:.0%} of the steps"


@advance_step.register
def _skipped(advance: SkippedTokens, question: AdvanceQuestion):
    """One pass over the token of the step and those that were added since."""
    rows = question.tokens_per_step
    passed = pass_cost(
        question.deployment, batch=question.batch, query_tokens=rows, context=question.context
    )
    return question.cost([(1.0, passed)])


METHOD = Method(
    slug="skip-token",
    title="Skip-token",
    citation=Citation(authors="Nobody", title="Skip-token", year=2026),
    group="model free",
    read="paper",
    advance=SkippedTokens(ratio=0.5),
)
'''
ASKED = """
import json, sys
from costmodel import methods
methods.__path__.append(sys.argv[1])
import rooftree
print(json.dumps([
    dict(getattr(rooftree, verb)(**options)) for verb, options in json.loads(sys.argv[2])
], default=float))
"""
HERE = {"model": "llama-3.1-8b", "device": "h100-sxm"}
TRACE = "smollm2-135m--prompt-lookup--greedy"


def answers(folder, *questions):
    """What verbs answer in a process whose catalogue has the files of a folder, too."""
    words = [sys.executable, "-c", ASKED, str(folder), json.dumps(questions)]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("methods")
    (folder / "echo.py").write_text(ECHO)
    (folder / "skip_token.py").write_text(SKIP_TOKEN)
    return folder


def test_a_file_adds_a_way_to_draft_that_every_verb_knows(folder):
    """What differs from n-gram is the label alone."""
    stated = {**HERE, "drafter": "echo:0.6,0.5", "draft_tokens": 2, "batch": [1, 8]}
    load = {"rate": 2.0, "count": 20, "prompt": 100, "output": 50, "draft_tokens": 2}
    predicted, usual, chosen, recorded, simulated = answers(
        folder,
        ("predict", stated),
        ("predict", stated | {"drafter": "n-gram:0.6,0.5"}),
        ("optimize", {**HERE, "drafter": "echo:0.6,0.5", "batch": [1]}),
        ("optimize", {**HERE, "drafter": f"echo:{TRACE}", "batch": [1]}),  # which is replayed
        ("simulate", {**HERE, **load, "drafter": f"echo:{TRACE}"}),
    )
    for ours, theirs in zip(predicted["predictions"], usual["predictions"], strict=True):
        assert ours["tokens_per_step"] == theirs["tokens_per_step"] > 1.0
        assert ours["speedup"] == theirs["speedup"] > 1.0
    for answer in (chosen, recorded):
        (choice,) = answer["choices"]
        assert choice["method"] == "echo" and choice["speedup"] > 1.0
    assert simulated["metrics"]["ttft_s"]["mean"] > 0.0


def test_a_file_adds_a_pace_of_its_own(folder):
    asked = {**HERE, "method": "skip-token", "batch": [1], "engine": "none"}
    predicted, stated, broken = answers(
        folder,
        ("predict", asked),
        ("predict", asked | {"tokens_per_step": 1.25}),
        ("breakeven", asked),
    )
    (_, row), (_, less) = predicted["predictions"], stated["predictions"]
    assert (row["tokens_per_step"], less["tokens_per_step"]) == (1.5, 1.25)
    assert 1.25 < row["speedup"] < 1.5 and 1.0 < less["speedup"] < 1.25
    assert [point["pays"] for point in broken["points"]] == [True]
    where = DeploymentNames(engine="none", **HERE)
    plain = build_setting(DecodingConfiguration(deployment=where)).deployment
    passed = pass_cost(plain, batch=1, query_tokens=1.5, context=float(row["context"]))
    assert row["step_s"] == pytest.approx(float(passed.total_s))


def test_what_no_recording_can_hold_is_refused_with_what_to_ask(folder):
    asked = {**HERE, "method": "skip-token", "trace": TRACE, "rate": 2.0, "count": 5}
    asked |= {"prompt": 100, "output": 50, "draft_tokens": 2}
    words = [sys.executable, "-c", ASKED, str(folder), json.dumps([("simulate", asked)])]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode and "a recording does not tell its pace" in ended.stderr
