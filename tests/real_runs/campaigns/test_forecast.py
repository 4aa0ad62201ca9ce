"""What a campaign is said to take is what recordings of that kind took, and what does not fit is
said before anything runs."""

import json
from pathlib import Path

import pytest
import yaml

pytest.importorskip("torch")

from app.cli.main import main
from hardware_profiles.errors import UnknownNameError
from real_runs.campaigns.campaign import RESERVE_S
from real_runs.campaigns.file import read_campaign
from real_runs.campaigns.forecast import forecast
from real_runs.campaigns.results import MAX_PACKED_BYTES
from real_runs.campaigns.shipped import campaign_file, campaign_names
from real_runs.drafters.registry import drafter_names
from traces.library import recordings, shipped_confidence

GPU_RECORD = campaign_file(Path("gpu-record"))
RECORD = {"kind": "record", "estimate_s": 100, "drafters": ["early-exit"], "temperatures": [0.0]}


def written(folder, *jobs, **settings):
    file = folder / "campaign.yaml"
    named = [{"name": f"job-{place}"} | job for place, job in enumerate(jobs)]
    file.write_text(yaml.safe_dump({"schema": 1, "jobs": named} | settings))
    return read_campaign(file)


def test_a_card_records_every_drafter_within_its_minutes_and_its_files():
    campaign = read_campaign(GPU_RECORD)
    expected = forecast(campaign)
    assert campaign.budget_s == expected.budget_s == 1500.0
    assert {job.fits for job in expected.jobs} == {"yes"} and expected.seconds < 1500 - 6
    assert expected.bytes < 0.75 * MAX_PACKED_BYTES  # a quarter is kept for what is not foreseen
    recorded = {name for job in campaign.jobs for name in getattr(job, "drafters", ())}
    assert recorded == set(drafter_names())
    assert "masked" in {job.kind for job in campaign.jobs}
    timed = {name for job in campaign.jobs if getattr(job, "timed", None) for name in job.drafters}
    assert {"feature-head", "prompt-lookup", "early-exit", "token-recycling"} <= timed


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("level-3/smollm2-135m--early-exit--greedy", {"level": 3, "nodes": 16}),
        ("level-3-trees/smollm2-135m--feature-head--t1", {"level": 3, "nodes": 16}),
        ("level-3/smollm2-135m--medusa-heads--t0.8", {"level": 3, "nodes": 0}),
        ("level-3/smollm2-135m--prompt-lookup--greedy", {"level": 3, "nodes": 0}),
        ("smollm2-135m--early-exit--greedy", {"level": 2, "nodes": 0}),
    ],
)
def test_sizes_are_those_of_shipped_recordings(tmp_path, name, options):
    drafter = name.split("--")[1]
    job = RECORD | {
        "drafters": [drafter],
        "level": options["level"],
        "drafter_options": {"expansion_nodes": options["nodes"]},
    }
    expected = forecast(written(tmp_path, job)).bytes
    assert expected == pytest.approx(recordings()[name].stat().st_size, rel=0.3)


def test_the_size_of_confidences_is_that_of_shipped_ones(tmp_path):
    job = {"kind": "masked", "estimate_s": 1, "requests": 64}
    taken = sum(path.stat().st_size for path in shipped_confidence() if "live" not in path.stem)
    assert forecast(written(tmp_path, job)).bytes == pytest.approx(taken, rel=0.1)


def test_what_has_no_time_what_is_done_and_what_is_too_large_is_said(tmp_path, tiny_folder):
    small = RECORD | {"model_file": str(tiny_folder)}
    campaign = written(
        tmp_path, small, small | {"estimate_s": 500}, small, weights_limit_bytes=1000
    )
    expected = forecast(campaign, budget_s=250)
    assert [job.fits for job in expected.jobs] == ["yes", "in part", "no"]
    assert expected.seconds == 250 - RESERVE_S and expected.weights[0][0] == "model.safetensors"
    assert "left for --resume: job-1 (in part), job-2" in expected.sentences
    whole = {"name": "copy", "kind": "copy", "sizes_bytes": [4096], "estimate_s": 500}
    assert forecast(written(tmp_path, whole), budget_s=250).jobs[0].fits == "no"
    (beyond,) = (words for words in expected.sentences if "weights beyond the 0.0 MiB" in words)
    parts = -(-expected.weights_bytes // 1000)
    assert parts > 1 and f"carry {parts} parts (`split --bytes 1000 FILE`" in beyond
    assert [job.name for job in forecast(campaign, done=["job-0"]).jobs] == ["job-1", "job-2"]
    (tmp_path / "fits").mkdir()
    (tmp_path / "fits" / "head.safetensors").write_bytes(bytes(500))
    carried = dict(forecast(campaign, fits=tmp_path / "fits").weights)
    assert carried["head.safetensors"] == 500
    absent = written(tmp_path, RECORD | {"model_file": str(tmp_path / "none.gguf")})
    assert forecast(absent).missing[0].startswith("no model for its jobs")


def test_shipped_campaigns_are_known_by_name(tmp_path, monkeypatch):
    assert {"cpu", "cpu-record", "gpu-80gb", "gpu-record"} <= set(campaign_names())
    assert campaign_file(Path("cpu.yaml")) == campaign_file(Path("cpu"))
    with pytest.raises(UnknownNameError, match="unknown campaign 'gpu-recrod'; nearest: gpu-recor"):
        campaign_file(Path("gpu-recrod"))
    monkeypatch.chdir(tmp_path)
    Path("cpu").write_text("mine")
    assert campaign_file(Path("cpu")) == Path("cpu")


def test_the_command_forecasts_and_runs_nothing(tmp_path, capsys):
    words = ["campaign", "gpu-record", "--dry-run", "--out", str(tmp_path / "out")]
    assert main(words) == 0
    assert "heads-timed" in capsys.readouterr().out and not (tmp_path / "out").exists()
    assert main([*words, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["inputs"]["budget_s"] == 1500.0 and answer["bytes"] > 1 << 20
    assert main(["campaign", "gpu-recrod"]) == 2
