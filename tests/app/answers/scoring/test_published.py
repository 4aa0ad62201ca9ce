"""The committed summary of errors on published runs: made as `score` counts, read for the runs most
like a question."""

import json

import pytest

from app.answers.scoring.published import FILE, published_errors, summarised


def measurement(engine, device, measured, predicted, span=(0.0, 1e9)):
    times = {f"measured_{q}_ms": measured for q in ("tpot", "ttft")} | {
        f"{q}_ms": predicted for q in ("tpot", "ttft")
    }
    return (
        times
        | {"engine": engine, "device": device, "reason": None}
        | {f"{q}_ms_interval": list(span) for q in ("tpot", "ttft")}
    )


def test_errors_are_counted_by_engine_and_device():
    rows = [measurement("trtllm", "h100_sxm", 10.0, p) for p in (9.0, 12.0)]
    rows += [
        measurement("vllm", "h100_sxm", 10.0, 10.0, (10.5, 11.0)),
        measurement("vllm", "new-chip", 10.0, 5.0),
    ]
    rows.append({**measurement("vllm", "h100_sxm", 10.0, None), "reason": "does not fit"})
    found = {
        (each["engine"], each["device"]): each
        for each in summarised({"measurements": rows})["groups"]
    }
    assert found["tensorrt-llm", "h100-sxm"]["tpot"]["median"] == pytest.approx(0.15)
    assert found["tensorrt-llm", "h100-sxm"]["tpot"]["bias"] == pytest.approx(0.05)
    assert found["", ""]["runs"] == 4
    assert found["vllm", "h100-sxm"]["tpot"] == {
        "runs": 1,
        "median": 0.0,
        "p90": 0.0,
        "bias": 0.0,
        "coverage": 0.0,
        "deciles": [0.0] * 9,
    }
    assert found["", "new-chip"]["tpot"]["median"] == pytest.approx(0.5)


def test_what_is_committed_adds_up():
    groups = published_errors()
    engines = [each for each in groups if each.engine and not each.device]
    devices = [each for each in groups if each.device and not each.engine]
    both = [each for each in groups if each.device and each.engine]
    assert (
        groups[0].runs
        == sum(e.runs for e in engines)
        == sum(d.runs for d in devices)
        == sum(b.runs for b in both)
    )
    assert json.loads(FILE.read_text())["measurements"] >= groups[0].runs
    for each in groups:
        if each.tpot:
            assert each.tpot["deciles"] == sorted(each.tpot["deciles"])
            assert each.tpot["median"] == pytest.approx(each.tpot["deciles"][4], abs=1e-4)
            assert each.tpot["median"] <= each.tpot["p90"]
