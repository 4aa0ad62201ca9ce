"""A whole validation of started servers, which are pretended: chosen, started, scored, kept."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from real_runs.validation.servers import validate as module
from real_runs.validation.servers.configurations import plain
from real_runs.validation.servers.launches import ServerLaunches
from real_runs.validation.servers.options import ServerOptions
from real_runs.validation.servers.steps_file import read_steps
from real_runs.validation.subject import BenchOptions
from tests.real_runs.validation.servers.served_runs import (
    RECORDED,
    SINGLE,
    PretendedServers,
)


@pytest.fixture
def pretended(monkeypatch):
    """Servers and recordings in place of llama.cpp's."""
    servers = PretendedServers()
    servers.server = None
    ids = {answer.request: answer.prompt for answer in RECORDED.answers.requests}
    monkeypatch.setattr(ServerLaunches, "launch", lambda self, served: servers.launch(served))
    monkeypatch.setattr(module, "server_cells", lambda server, prompts, wanted: ([SINGLE], ids))
    monkeypatch.setattr(module, "record_prompts", lambda *given, **how: RECORDED)
    monkeypatch.setattr(module, "chosen_for", lambda cell, known, base, *more, **how: plain(base))
    return servers


def test_what_was_chosen_and_a_spread_are_started_scored_and_kept(pretended, tmp_path):
    options = ServerOptions(
        bench=BenchOptions(out=tmp_path, rounds=2, budget_s=600.0, keep_disturbed=True),
        profile="cpu-generic",
        model=Path("smollm2-135m"),
        fidelity="calibrated",
        slots=(1,),
        contexts=(256,),
        per_slots=2,
        max_new_tokens=3,
    )
    found = module.validate_server(options, lambda served: ["--flag", served.name])
    assert not found.missing and not found.left_out
    configurations = [point.configuration for point in found.points]
    assert configurations[0] == "plain" and len(configurations) == 3
    assert found.points[0].chosen and all(point.differing == 4 for point in found.points)
    assert found.points[0].predicted["ttft_s"] > 0.0 and found.points[0].measured["tpot_s"] == 0.1
    assert len(found.about["commands"]) == 3 and found.about["rounds"] == 2
    assert [place for place, _ in read_steps(tmp_path)] == [0, 0, 1, 1, 2, 2]
    assert not (tmp_path / "caches").exists()
    started = len(pretended.started)
    again = module.validate_server(
        replace(options, bench=replace(options.bench, resume=True)), lambda served: []
    )
    assert [point.measured for point in again.points] == [point.measured for point in found.points]
    assert pretended.started[started:] == ["plain"], "the plain server alone, for its answers"
