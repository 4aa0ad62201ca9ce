"""A campaign records acceptance with the seconds of its steps, on a CPU and on a pretended card, goes
on where it was cut, and its results validate both halves of a prediction."""

import pytest
import yaml

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("scipy")

from real_runs.campaigns import campaign as campaigns
from real_runs.campaigns import recording_job
from real_runs.campaigns.results import read_recordings, read_summary
from real_runs.validation.timed.files import timed_traces
from real_runs.validation.timed.validate import validate_timed
from tests.real_runs.recording.test_record import PROMPTS

FIT = {
    "fit_answers": 0,
    "fit_characters": 2000,
    "head_rows": 4,
    "head_row_tokens": 32,
    "head_steps": 2,
    "expansion_nodes": 3,
}
TIMED = {"chains": [2, 3], "tree_nodes": [4], "batches": [1, 2], "rounds": 1}
MASKED = {
    "name": "masked",
    "kind": "masked",
    "priority": 2,
    "estimate_s": 60,
    "requests": 1,
    "caches": ["dual"],
    "training_steps": 1,
}
SCRIPT = """
import yaml
from pathlib import Path
from dataclasses import replace
from real_runs.campaigns.campaign import run_campaign
from real_runs.validation.timed.files import timed_traces
folder = Path({folder!r})
report = run_campaign(folder / "c.yaml", out=folder / "out", isolate=False, device="cuda")
for outcome in report.outcomes:
    assert outcome.state == "finished" and outcome.bytes > 0, outcome
traces, others = timed_traces(folder / "out")
for trace in traces:
    assert trace.level == (1 if trace.rank is None else 3), trace.level
    assert trace.provenance.device.startswith("NVIDIA H100"), trace.provenance.device
    assert trace.provenance.extra["timing"]["left_out_steps"] == 0
    assert (trace.steps.verify_s > 0).all()
print(len(traces), len(others))
"""


def written(folder, model, *, drafters=("prompt-lookup", "early-exit"), prompts=4, others=()):
    parts = PROMPTS.split("[[prompts]]")[: prompts + 1]
    (folder / "prompts.toml").write_text("[[prompts]]".join(parts))
    record = {
        "name": "timed",
        "kind": "record",
        "priority": 1,
        "estimate_s": 60,
        "model_file": str(model),
        "prompts": str(folder / "prompts.toml"),
        "drafters": list(drafters),
        "temperatures": [0.0],
        "level": 3,
        "max_new_tokens": 12,
        "drafter_options": FIT,
        "timed": TIMED,
    }
    file = folder / "c.yaml"
    jobs = {"schema": 1, "threads": 1, "budget_s": 400, "jobs": [record, *others]}
    file.write_text(yaml.safe_dump(jobs))
    return file


@pytest.mark.heavy
def test_a_campaign_that_is_cut_while_it_times_goes_on_and_validates(
    tmp_path, tiny_folder, monkeypatch
):
    file, out, fits = written(tmp_path, tiny_folder), tmp_path / "out", tmp_path / "fits"
    record, perform, seen = recording_job.record, campaigns.perform, []

    def watched(options, *, progress):
        def advance(at):
            seen.append(at.stage)
            progress(at)

        return record(options, progress=advance)

    def cut(job, *places, should_stop, **options):
        perform(job, *places, should_stop=lambda: seen.count("time") == 5, **options)

    def run():
        return campaigns.run_campaign(file, out=out, resume=True, isolate=False, fits=fits)

    with monkeypatch.context() as patched:
        patched.setattr(recording_job, "record", watched)
        patched.setattr(campaigns, "perform", cut)
        first = run()
    assert [outcome.state for outcome in first.outcomes] == ["cut"]
    assert "timed runs left" in first.outcomes[0].reason
    assert [path.name for path in fits.iterdir()] == ["tiny-llama--exit1-bridge.safetensors"]
    second = run()
    assert [outcome.state for outcome in second.outcomes] == ["finished"]
    assert second.outcomes[0].bytes > 0 and run().outcomes[0].resumed
    assert read_summary(out)["jobs"]["timed"]["bytes"] == second.outcomes[0].bytes
    assert {name.split("/")[0] for name in read_recordings(out)} == {"timed"}
    traces, others = timed_traces(out)
    assert len(traces) == 2 and not others
    report = validate_timed(
        traces,
        profile="cpu-generic",
        shipped_model="smollm2-135m",
        fidelity="calibrated",
        out=tmp_path / "v",
    )
    assert {errors.agreeing_ratio for errors in report.steps} == {1.0}
    assert {point.batch for point in report.validation.points} == {1, 2}


@pytest.mark.heavy
def test_a_pretended_card_records_the_seconds_of_its_steps(ran, tmp_path, tiny_folder):
    drafters = ("early-exit", "medusa-heads")
    written(tmp_path, tiny_folder, drafters=drafters, prompts=2, others=[MASKED])
    assert ran(SCRIPT.format(folder=str(tmp_path))) == ["2", "1"]
