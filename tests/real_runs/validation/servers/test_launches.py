"""Every run is made once, whatever servers do, and a run that a server failed is noted and tried
again."""

import time

import pytest

from real_runs.recording.log import RecordingLog
from real_runs.trials.make import FAILED, make_runs
from real_runs.validation.runs import AGAIN
from real_runs.validation.servers import launches as module
from real_runs.validation.servers.configurations import drafted, synthetic
from tests.real_runs.validation.servers.served_runs import (
    ASKED,
    LOOKUP,
    PLAIN,
    PretendedServers,
    subject,
    values,
)

SOON = 60.0


def made(bench, path, *, rounds=2, resume=False, left_s=SOON):
    with RecordingLog(path / "runs.part.jsonl", {"plan": 1}, resume=resume) as log:
        deadline = time.monotonic() + left_s
        missing = make_runs(subject(bench), log, rounds=rounds, deadline=deadline)
        return missing, list(log.finished)


def places(entries):
    return sorted(
        (e["cell"], e["configuration"], *e["prompts"], e["round"])
        for e in entries
        if FAILED not in e
    )


def test_a_server_serves_all_cells_of_its_slots_and_every_round_starts_each_configuration_once(
    tmp_path,
):
    bench = PretendedServers()
    missing, entries = made(bench, tmp_path)
    assert missing == 0 and len(entries) == 16 and len(set(places(entries))) == 16
    assert {*bench.started[:2]} == {*bench.started[2:]} == {PLAIN.name, LOOKUP.name}


def test_a_server_that_dies_costs_one_run_and_the_rest_goes_on(tmp_path):
    bench = PretendedServers(dies=[(LOOKUP.name, ("b",))])
    missing, entries = made(bench, tmp_path, rounds=1)
    (failed,) = [each for each in entries if FAILED in each]
    assert failed["prompts"] == ["b"] and "ended" in failed[FAILED]
    assert missing == 0 and len(entries) == 8 and bench.started.count(LOOKUP.name) == 2
    again, entries = made(bench, tmp_path, rounds=1, resume=True)  # it is tried once more
    assert again == 0 and len(places(entries)) == 8


def test_a_configuration_whose_server_does_not_come_up_is_noted_and_no_other_suffers(tmp_path):
    bench = PretendedServers(absent=(LOOKUP.name,))
    _, entries = made(bench, tmp_path, rounds=1)
    assert {each["configuration"] for each in entries if FAILED in each} == {LOOKUP.name}
    assert [each["configuration"] for each in entries if FAILED not in each] == [PLAIN.name] * 4
    assert bench.started.count(LOOKUP.name) == 1


@pytest.mark.parametrize("after", [0, 3, 7])
def test_what_was_measured_before_ctrl_c_is_kept_and_the_rest_is_made_later(tmp_path, after):
    with pytest.raises(KeyboardInterrupt):
        made(PretendedServers(stop_after=after), tmp_path)
    bench = PretendedServers()
    missing, entries = made(bench, tmp_path, resume=True)
    (tmp_path / "whole").mkdir()
    assert missing == 0 and places(entries) == places(
        made(PretendedServers(), tmp_path / "whole")[1]
    )
    assert len(bench.ran) == 16 - after


def test_nothing_is_begun_after_the_deadline(tmp_path):
    missing, entries = made(PretendedServers(), tmp_path, left_s=-1.0)
    assert missing == 16 and not entries


def test_the_fastest_repeat_counts_and_repeats_that_drew_are_all_kept(monkeypatch, tmp_path):
    sent, seconds = [], iter([3.0, 1.0, 2.0, 3.0, 1.0, 2.0, 1.0, 1.0, 1.0])
    monkeypatch.setattr(module, "restore", lambda server, slot, ids, where: sent.append(where.name))
    monkeypatch.setattr(module, "whole_answers", lambda server, asked: sent.append(len(asked)))
    monkeypatch.setattr(
        module, "asked_together", lambda *given, **how: values(decode_s=next(seconds))
    )
    monkeypatch.setattr(module, "slot_options", lambda server, slot: {})
    servers = module.ServerLaunches(
        command=lambda served: [],
        folder=tmp_path,
        caches=tmp_path,
        prompts={"a": (1, 2, 3, 4, 5), "b": (6,)},
        max_new_tokens=8,
    )
    running = module.LaunchedServer(launches=servers, server=None, pid=0)
    running.warm(LOOKUP, ("a", "b"))
    assert sent == [2]
    assert running.run(LOOKUP, ("a", "b"))["decode_s"] == 1.0
    assert sent[1:] == ["1-slots"] * 6
    drew = running.run(synthetic(LOOKUP, 0.5), ("a",))
    assert (drew["decode_s"], [again["decode_s"] for again in drew[AGAIN]]) == (3.0, [1.0, 2.0])
    running.run(drafted(ASKED, 2), ("a", "b"))
    assert sent[-3:] == [2, 2, 2], "files hold no cache of a draft model"
