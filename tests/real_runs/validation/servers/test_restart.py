"""A server that is restarted by somebody else: measured as it is, then with what was named, never
started here."""

import json

import pytest

from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.optimizers.drafters.sources import rates_source
from hardware_profiles.errors import InputError
from real_runs.servers.address import Address
from real_runs.validation.servers.restart import RestartOptions, validate_restarted, wait_until_back
from real_runs.validation.subject import BenchOptions
from tests.real_runs.servers.stub_server import serving

QUESTION = DecodingConfiguration(
    deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="vllm"),
    method="eagle-3",
)


def options(url, out, *, rounds=2, resume=False, **changes):
    given = {
        "bench": BenchOptions(out=out, rounds=rounds, resume=resume),
        "address": Address.parse(url),
        "question": QUESTION,
        "users": (1, 2),
        "draft_tokens": (3,),
        "source": rates_source("eagle-3", [0.8, 0.6, 0.4]),
        "max_new_tokens": 12,
    } | changes
    return RestartOptions(**given)


def test_every_configuration_is_measured_once_the_server_runs_it(tmp_path):
    named = []

    def name_files(served):
        named.append(served.name)
        return served.name

    with serving("vllm", interval_s=0.002, at_once=2) as (url, stub):
        found = validate_restarted(options(url, tmp_path), name_files, restarted=lambda where: True)
    assert named == ["eagle-3-k3"]
    assert {(point.configuration, point.batch) for point in found.points} == {
        ("plain", 1),
        ("plain", 2),
        ("eagle-3-k3", 1),
        ("eagle-3-k3", 2),
    }
    assert (
        found.missing == 0
        and len(found.regrets) == 2
        and (tmp_path / "validation.parquet").exists()
    )
    assert stub.most_at_once == 2 and all(body["max_tokens"] == 12 for body in stub.bodies)
    for (
        point
    ) in found.points:  # two tokens an event, and on a busy machine some events are read together
        assert 2.0 <= point.measured["tokens_per_step"] <= 12
        assert point.predicted["tokens_per_step"] == pytest.approx(2.8 if point.drafter else 1.0)
        assert point.interval[0] < point.predicted["tokens_per_s"] < point.interval[1]


def test_a_call_that_does_not_wait_leaves_the_rest_to_the_next_one(tmp_path):
    with serving("vllm", interval_s=0.002, at_once=2) as (url, stub):
        first = validate_restarted(
            options(url, tmp_path), lambda served: "", restarted=lambda where: False
        )
        assert {point.configuration for point in first.points} == {"plain"} and first.missing == 4
        asked = len(stub.bodies)
        with pytest.raises(InputError, match="resume"):
            validate_restarted(
                options(url, tmp_path), lambda served: "", restarted=lambda where: False
            )
        second = validate_restarted(
            options(url, tmp_path, resume=True), lambda served: "", restarted=lambda where: False
        )
        assert second.missing == 0 and len(stub.bodies) == 2 * asked
    again = json.loads((tmp_path / "runs.part.jsonl").read_text().splitlines()[-1])
    assert again["configuration"] == "eagle-3-k3"


def test_runs_that_fail_are_said_and_the_others_count(tmp_path):
    with serving("vllm", interval_s=0.002, fault="says", fails_from=3) as (url, _):
        found = validate_restarted(
            options(url, tmp_path, rounds=1), lambda served: "", restarted=lambda where: True
        )
    assert {point.configuration for point in found.points} == {"plain"}
    failed, unscored = found.left_out[:2], found.left_out[2:]
    assert all("eagle-3-k3: round 0" in why and "out of memory" in why for why in failed)
    assert len(unscored) == 2 and all("no undisturbed run" in why for why in unscored)


def test_a_server_that_nobody_runs_is_an_error(tmp_path):
    with serving("vllm") as (url, _):
        pass
    with pytest.raises(InputError, match="cannot be reached"):
        validate_restarted(options(url, tmp_path), lambda served: "", restarted=lambda where: True)


def test_waiting_ends_when_the_server_comes_back_or_somebody_says_so(monkeypatch):
    monkeypatch.setattr("real_runs.validation.servers.restart._POLL_S", 0.0)
    states, said = iter([None, InputError("gone"), InputError("gone"), None]), []

    def pretended(address, patience):
        if (state := next(states)) is not None:
            raise state

    monkeypatch.setattr("real_runs.validation.servers.restart.identify", pretended)
    where = Address.parse("http://127.0.0.1:1")
    assert wait_until_back(where, pressed=lambda: False, tell=said.append)
    assert len(said) == 3 and next(states, "spent") == "spent"
    states = iter([None])
    assert wait_until_back(where, pressed=lambda: True, tell=said.append)
