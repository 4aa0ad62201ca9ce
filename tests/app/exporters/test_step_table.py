"""The seconds of steps that SGLang loads: near our own model wherever a batch can be, and only for
who verifies by them."""

import json

import numpy as np
import pytest

from app.exporters.registry import export
from app.exporters.sglang import STEP_FILE
from app.exporters.step_table import step_table
from costmodel.answers.settings import build_setting
from costmodel.answers.verify_widths import verify_seconds
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.method import Stop
from hardware_profiles.errors import InputError

K = 5


def chosen(rule="cost", method="dspark", device="h100-sxm", model="llama-3.1-8b", **changes):
    where = DeploymentNames(model=model, device=device)
    settings = {"draft_model": "drafts/dspark-head", "draft_tokens": K, "stop": Stop(rule=rule)}
    return DecodingConfiguration(method=method, deployment=where, **(settings | changes))


@pytest.mark.parametrize(
    ("model", "device"), [("llama-3.1-8b", "h100-sxm"), ("qwen3-30b-a3b", "l40s")]
)
def test_the_table_is_near_our_model_at_every_batch(model, device):
    what = chosen(model=model, device=device)
    table = step_table(what, most_requests=64, context=2000)
    assert table.worst_ratio < 0.02 and table.bias_seconds > 0.0
    setting = build_setting(what)
    for requests in (1, 4, 64):
        seconds = verify_seconds(setting, K, batch=requests, context=2000.0)
        some = np.arange(1, requests * K + 1)
        read = np.array([table.seconds(requests, requests + n) for n in some.tolist()])
        assert np.abs(read / seconds[some] - 1.0).max() < 0.07


def test_it_is_what_sglang_reads():
    written = export(chosen(max_batch=100, context=2000), "sglang")
    table = json.loads(written.files[STEP_FILE])
    assert set(table) == {
        "bias_seconds",
        "bs_probes",
        "alpha_seconds",
        "m_probes",
        "theta_seconds",
    }
    assert table["bias_seconds"] > 0.0
    for probes, values in (("bs_probes", "alpha_seconds"), ("m_probes", "theta_seconds")):
        assert table[probes] == sorted(set(table[probes])) and len(table[probes]) == len(
            table[values]
        )
        assert all(isinstance(probe, int) for probe in table[probes])
    assert table["bs_probes"][-1] == 100 and table["m_probes"][-1] == 100 * (K + 1)
    assert "SGLANG_RAGGED_VERIFY_MODE=compact" in written.command
    assert f"--speculative-dspark-sps-table-path {STEP_FILE}" in written.command
    assert "--speculative-dspark-block-size 5" in written.command
    assert any("predicted seconds" in note for note in written.notes)


def test_who_verifies_whole_drafts_loads_no_table():
    written = export(chosen(rule="length"), "sglang")
    assert STEP_FILE not in written.files and "RAGGED" not in written.command
    assert "--speculative-algorithm DSPARK" in written.command


def test_vllm_times_its_own_passes():
    written = export(chosen(), "vllm")
    config = json.loads(written.files["vllm-speculative-config.json"])
    assert config == {
        "method": "dspark",
        "num_speculative_tokens": K,
        "model": "drafts/dspark-head",
        "enable_adaptive_verification": True,
    }
    whole = export(chosen(rule="length"), "vllm", "0.25.1")
    assert "enable_adaptive_verification" not in whole.command
    with pytest.raises(InputError, match=r"0\.25\.1.*whole drafts") as refused:
        export(chosen(), "vllm", "0.25.1")
    assert refused.value.key == "stop"


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "tensorrt-llm"])
def test_others_verify_drafts_whole(engine):
    with pytest.raises(InputError, match="verifies drafts whole"):
        export(chosen(method="eagle-3"), engine)


def test_seconds_need_a_device():
    with pytest.raises(InputError, match="depend on the device"):
        export(chosen(device=""), "sglang")
