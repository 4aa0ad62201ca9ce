"""Every door asks in the same formats, and says the same of them."""

from dataclasses import replace

import pytest

import rooftree
from app.answers.models.inspection import inspected
from app.dashboard.link import state_of
from app.dashboard.question import deployment
from app.exporters.registry import export
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from hardware_profiles.errors import InputError
from hardware_profiles.units import GIGA
from simulator.scenario.configured import sections_of

CHOSEN = DecodingConfiguration(
    deployment=DeploymentNames(model="llama-3.1-8b", dtype="AWQ", draft_dtype="FP8"),
    method="eagle-3",
    draft_tokens=3,
    acceptance_by_depth=(0.7, 0.5, 0.3),
    batch=8,
    context=1024,
)


def test_names_of_formats_have_no_case():
    where = CHOSEN.deployment
    assert (where.dtype, where.draft_dtype) == ("awq", "fp8")


def test_configurations_links_and_scenarios_carry_the_format_of_the_drafter():
    assert DecodingConfiguration.from_json(CHOSEN.to_json()) == CHOSEN
    assert deployment(state_of(CHOSEN)).draft_dtype == "fp8"
    assert sections_of(CHOSEN)["deployment"]["draft_dtype"] == "fp8"


def test_an_unknown_format_of_a_drafter_is_refused():
    wrong = replace(CHOSEN, deployment=replace(CHOSEN.deployment, draft_dtype="int3"))
    with pytest.raises(InputError, match="int3"):
        build_setting(wrong)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "transformers"])
def test_an_export_asks_for_a_drafter_that_is_stored_so(engine):
    chosen = replace(CHOSEN, method="speculative-decoding", draft_model="llama-3.2-1b", batch=1)
    result = export(chosen, engine)
    assert any("draft weights in fp8" in note for note in result.notes)
    assert any("PATH_OF_THE_AWQ_CHECKPOINT" in text for text in result.files.values())


def test_an_export_says_nothing_of_the_format_that_the_checkpoint_has():
    where = DeploymentNames(model="gpt-oss-120b", dtype="mxfp4")
    assert not any(
        "stored so" in note
        for note in export(DecodingConfiguration(deployment=where), "vllm").notes
    )
    assert any(
        "stored so" in note
        for note in export(
            DecodingConfiguration(deployment=replace(where, dtype="nvfp4")), "vllm"
        ).notes
    )


def test_the_catalogue_weighs_the_published_checkpoint():
    model, _ = inspected("gpt-oss-120b")
    assert model.dtype == "mxfp4" and model.weight_bytes / GIGA == pytest.approx(65.2, rel=0.01)


def test_gpt_oss_runs_on_one_h100_whoever_is_asked():
    predicted = rooftree.predict(model="gpt-oss-120b", device="h100-sxm", draft_tokens=0, batch=[1])
    assert all(row["feasible"] for row in predicted["predictions"])
    planned = rooftree.capacity(
        model="gpt-oss-120b", device="h100-sxm", rate=0.5, prompt=512, output=128, tp="1"
    )
    assert planned["best"] is not None and planned["best"]["tp"] == 1


def test_fp8_on_an_a100_is_stored_and_not_widened():
    """Weight-only kernels: fewer bytes are read than in 16 bits, and no error."""
    rows = {
        dtype: rooftree.predict(
            model="llama-3.1-8b", device="a100-sxm-80", dtype=dtype, draft_tokens=0, batch=[1]
        )["predictions"][0]
        for dtype in ("fp8", "bf16")
    }
    assert rows["fp8"]["step_s"] < 0.75 * rows["bf16"]["step_s"]


def test_a_mac_reads_q4_k_m_at_its_bandwidth():
    """Weights of 4.9 GB at 400 GB/s allow 81 tokens per second: 19.4 were said, in 16 bits and on
    tiles of 16 rows."""
    where = {
        "model": "llama-3.1-8b",
        "device": "apple-m3-max",
        "engine": "llama.cpp",
        "draft_tokens": 0,
        "batch": [1],
    }
    (row,) = rooftree.predict(**where, dtype="Q4_K_M", context=512)["predictions"]
    assert 45.0 < row["tokens_per_s"] < 81.0
    (wide,) = rooftree.predict(**where, context=512)["predictions"]
    assert wide["tokens_per_s"] < 400e9 / 16.06e9
