"""llama.cpp's own server is measured end to end: what is written predicts what was seen."""

import pytest

pytest.importorskip("xllamacpp")

from costmodel.answers.estimate import step_cost
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.passes.measured import PROMPT
from real_runs.calibration.server import measure
from real_runs.calibration.server.calibrate import calibrate_server
from real_runs.calibration.server.client import launched_llama_cpp
from real_runs.calibration.server.shapes import RoundPlan
from traces.storage.kernels import read_kernels

pytestmark = [pytest.mark.model, pytest.mark.heavy]


@pytest.fixture(autouse=True)
def _short_prompts(monkeypatch):
    monkeypatch.setattr(measure, "FRESH", (64, 128))


def test_llama_cpp_is_measured_and_its_steps_are_predicted(tmp_path, shipped):
    plan = RoundPlan(contexts=(75, 150), drafts=(0, 4), requests=(1, 2), rounds=1)
    calibration = calibrate_server(out=tmp_path, plan=plan, budget_s=600.0)
    rows = read_kernels(calibration.trace).rows
    steps = {(row.requests, row.query_tokens) for row in rows if row.mask != PROMPT}
    assert steps == {(1, 1), (2, 1), (1, 5), (2, 5)}  # whole verify passes, of two slots too
    assert any(row.mask == PROMPT and row.context == 0 for row in rows)
    assert {row.model for row in rows} == {"smollm2-135m"} and {row.dtype for row in rows} == {
        "q4_1"
    }
    names = DeploymentNames(
        model=str(shipped),
        device=str(calibration.profile),
        engine=str(calibration.engine_file),
        fidelity="measured",
    )
    setting = build_setting(DecodingConfiguration(method="n-gram", deployment=names))
    for row in rows:
        if row.mask != PROMPT:
            none = geometric(0.0, row.query_tokens - 1)
            step = step_cost(setting, none, batch=row.requests, context=row.context)
            assert float(step.total_s) == pytest.approx(row.median_s, rel=1e-6)
    assert not (tmp_path / "slots").exists()


def test_a_server_that_somebody_else_runs_is_measured(tmp_path, few_layers):
    folder = tmp_path / "theirs"
    with launched_llama_cpp(
        few_layers, 0, False, slots=2, context=512, folder=folder, threads=1, vocabulary=49152
    ) as client:
        plan = RoundPlan(contexts=(50, 150), drafts=(0,), requests=(1, 2), rounds=1)
        url = str(client.server.address)
        calibration = calibrate_server(
            out=tmp_path / "ours", server=url, model=str(few_layers), plan=plan, budget_s=600.0
        )
    assert calibration.engine == "llama.cpp"
    assert calibration.law.steps == 4 and calibration.law.prompt_token_s > 0.0
