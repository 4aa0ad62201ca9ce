"""A card is probed, timed, fitted, predicted and reported in one call, and a second call goes on
where it was ended."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("scipy")


SCRIPT = """
import yaml
from pathlib import Path
from real_runs.calibration import device as calibration, passes
from real_runs.gpu_doctor import ProbeResult
from real_runs.kernels import attention, gemm
from real_runs.validation import quick, replayed
for module in (attention, gemm, step, calibration, passes, replayed):
    module.load_model = lambda name: TINY
folder = Path({folder!r})
sizes = dict(requests=[1, 2], query_tokens=[1, 4], model="smollm2-135m")
common = dict(estimate_s=20, repeats=3, budget_s=0.001, kernel_names=False)
few = [dict(name="copy", kind="copy", sizes_bytes=[4096]),
       dict(name="gemm", kind="gemm", models=["smollm2-135m"], rows=[1, 8])]
fit = [dict(name="passes", kind="steps", masks=["causal"], context=[16, 40, 64], **sizes)]
scored = [dict(name="score-passes", kind="steps", masks=["causal"], context=[24, 48], **sizes)]
def campaign(name, jobs):
    jobs = [common | job for job in jobs]
    (folder / name).write_text(yaml.safe_dump(dict(schema=1, device="cuda", jobs=jobs)))
    return folder / name
calibration.calibration_jobs = lambda *a, **k: [common | job for job in few + fit]
plan = quick.QuickPlan(kernels=campaign("k.yaml", few), passes=campaign("p.yaml", fit + scored), isolate=False,
                  model="smollm2-135m", kernels_s=100, passes_s=100, calibration_s=100)
state = "ok"
def probe(device, progress):
    return [ProbeResult(probe="identity", state=state, detail="", advice="")]
told = []
def went(**more):
    return quick.validate_quickly(folder / "out", plan=plan, probe=probe, tell=told.append, **more)
"""


def test_all_stages_end_in_a_report_and_go_on(ran, tmp_path):
    said = ran(
        SCRIPT.format(folder=str(tmp_path))
        + """
card = went()
assert card.validation.summary.configurations == 8, card.validation.summary
assert {job.state for jobs in card.campaigns.values() for job in jobs.outcomes} == {"finished"}
assert card.profile.parent == folder / "out" / "calibration" and card.profile.exists()
assert [text for text in told if text[1:5] == " of "] == [text for text in told if text[:1].isdigit()]
told.clear()
again = went(resume=True)
assert not any("about" in text for text in told), told
print(card.validation.points == again.validation.points, len(card.findings))
state = "wrong"
try:
    went(resume=True)
except Exception as error:
    print(type(error).__name__, "identity" in str(error))
"""
    )
    assert said == ["True", "1", "InputError", "True"]


def test_a_processor_is_referred_to_other_words(tmp_path):
    from hardware_profiles.errors import InputError
    from real_runs.validation.quick import validate_quickly

    with pytest.raises(InputError, match="must be a GPU"):
        validate_quickly(tmp_path / "out", device="cpu")
