"""Runs of a plan are made once, in turn, within the time, and go on after an end."""

import contextlib
import time
from dataclasses import dataclass, field

import pytest

pytest.importorskip("torch")

from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.recording.log import RecordingLog
from real_runs.servers.asking import FailedRunError
from real_runs.validation.bench import make_runs, score
from real_runs.validation.cells import ValidationCell
from real_runs.validation.configurations import Configuration, chain
from real_runs.validation.predict import PredictedRun, Prediction
from real_runs.validation.runs import FAILED, run_key
from real_runs.validation.subject import Plan, Predictor, Subject, UnscoredError, grouped
from tests.real_runs.validation.servers.served_runs import values

CELL = ValidationCell(phase="score", kind="k", context=0, batch=1, prompts=("a", "b"))
PLAN = Plan(
    cells=[(CELL, [Configuration(), chain("prompt-lookup", 2)])],
    chosen={CELL.name: "prompt-lookup-2"},
)


@dataclass
class Pretended:
    """A subject that takes no time.

    Attributes:
        ends_after: runs after which somebody presses Ctrl-C.
        refuses: prompts that fail a run, each once.
        later: a start is left to a later call.
    """

    plan: Plan = PLAN
    ends_after: int | None = None
    refuses: list = field(default_factory=list)
    later: bool = False
    warmed: list = field(default_factory=list)
    ran: list = field(default_factory=list)

    @property
    def subject(self):
        return Subject(
            plan=self.plan,
            setup={},
            about={},
            launch=self.launch,
            counted=list,
            predictor=lambda counted: Predictor(predict=predicted, costs={"runs": len(counted)}),
            differs=lambda configuration, run: bool(configuration.drafter),
        )

    @contextlib.contextmanager
    def launch(self, configuration):
        yield None if self.later else self

    def warm(self, configuration, prompts):
        self.warmed.append((configuration.name, prompts))

    def probes(self):
        return [0.01, 0.03, 0.02]

    def run(self, configuration, prompts):
        if len(self.ran) == self.ends_after:
            raise KeyboardInterrupt
        if prompts in self.refuses:
            self.refuses.remove(prompts)
            raise FailedRunError("it stopped")
        self.ran.append((configuration.name, prompts))
        return {**values(), "decode_s": 1.0 if configuration.drafter else 2.0}


def predicted(cell, configuration, runs):
    run = PredictedRun(tokens=10, steps=10, request_steps=10, draft_s=0.0, verify_s=1.0, rest_s=0.0)
    prediction = Prediction(run=run, spread_ratio=0.1)
    return {group: (own, prediction) for group, own in grouped(cell, runs).items()}


SUBJECT = Pretended().subject


def made(subject, folder, *, rounds=2, resume=False, left_s=60.0):
    with RecordingLog(folder / "r.part.jsonl", {}, resume=resume) as log:
        missing = make_runs(subject.subject, log, rounds=rounds, deadline=time.monotonic() + left_s)
        return missing, list(log.finished)


def test_runs_are_made_once_in_turn(tmp_path):
    subject = Pretended()
    missing, entries = made(subject, tmp_path)
    assert missing == 0 and len({run_key(entry) for entry in entries}) == len(entries) == 8
    first = {entry["round"]: entry["configuration"] for entry in reversed(entries[::2])}
    assert first[0] != first[1], "which configuration comes first goes round"
    assert all(entry["probe_s"] == 0.02 for entry in entries)
    assert subject.warmed == [("plain", ("a",)), ("prompt-lookup-2", ("a",))]
    assert made(subject, tmp_path, resume=True) == (0, entries)


@given(ends_after=st.integers(0, 7))
def test_a_later_call_goes_on_after_the_last_run(tmp_path_factory, ends_after):
    folder = tmp_path_factory.mktemp("ends")
    with pytest.raises(KeyboardInterrupt):
        made(Pretended(ends_after=ends_after), folder)
    later = Pretended()
    missing, entries = made(later, folder, resume=True)
    assert missing == 0 and len({run_key(entry) for entry in entries}) == 8
    assert len(later.ran) == 8 - ends_after


def test_no_run_is_begun_without_time_or_where_nothing_can_be_started_yet(tmp_path):
    for name, subject, left_s in (("late", Pretended(), -1.0), ("later", Pretended(later=True), 9)):
        (tmp_path / name).mkdir()
        assert made(subject, tmp_path / name, rounds=3, left_s=left_s) == (12, [])


def test_a_run_that_fails_is_noted_said_and_made_by_a_later_call(tmp_path):
    missing, entries = made(Pretended(refuses=[("b",)]), tmp_path, rounds=1)
    failed = [entry for entry in entries if FAILED in entry]
    assert missing == 0 and len(entries) == 4 and [entry["prompts"] for entry in failed] == [["b"]]
    validation = score(SUBJECT, entries, missing=0, rounds=1)
    assert "it stopped" in validation.left_out[0] and len(validation.points) == 1
    assert "no undisturbed run of every prompt" in validation.left_out[1]
    _, entries = made(Pretended(), tmp_path, rounds=1, resume=True)
    assert not score(SUBJECT, entries, missing=0, rounds=1).left_out


def test_points_choices_and_texts_that_differ_are_told(tmp_path):
    _, entries = made(Pretended(), tmp_path)
    validation = score(SUBJECT, entries, missing=3, rounds=2)
    plain, lookup = validation.points
    assert (plain.chosen, lookup.chosen) == (False, True)
    assert (plain.differing, lookup.differing) == (0, 4) and lookup.runs == 4
    assert plain.error_ratio == pytest.approx(1.0) and lookup.error_ratio == pytest.approx(0.0)
    (regret,) = validation.regrets
    assert regret.regret_ratio == 0.0 == validation.summary.mean_regret_ratio
    assert validation.missing == 3 and validation.about["rounds"] == 2
    assert len(validation.counted) == validation.costs["runs"] == 8


def test_nothing_to_score_is_an_error_that_says_why():
    with pytest.raises(InputError, match="raise the budget"):
        score(SUBJECT, [], missing=8, rounds=2)
    with pytest.raises(InputError, match="no undisturbed run of every prompt"):
        score(SUBJECT, [], missing=0, rounds=2)
    with pytest.raises(UnscoredError):
        grouped(CELL, [])
