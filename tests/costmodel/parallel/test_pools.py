"""Workers that serve together: how they are written, and how long a cache travels between them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.library import load_model
from costmodel.parallel.plan import BETWEEN_NODES_BYTES_PER_S, ParallelPlan
from costmodel.parallel.pools import ServingPlan, Workers, transfer_seconds, workers_of
from costmodel.passes.memory import kv_bytes
from costmodel.passes.precision import Precision
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device

SIZES = st.sampled_from([1, 2, 4, 8])


@given(st.integers(1, 999), SIZES, SIZES, SIZES)
def test_what_workers_are_written_as_reads_back(count, tensor, pipeline, data):
    workers = Workers(
        count=count, plan=ParallelPlan(tensor=tensor, pipeline=pipeline, data=data, expert=data)
    )
    assert workers_of(str(workers)) == workers
    assert workers.devices == count * tensor * pipeline * data


@pytest.mark.parametrize(
    "written", ["", "tp4", "2x", "0xtp1", "2xtp4tp2", "2xqp4", "2xtp0", "-1xtp4", "2xtp4 1xtp2"]
)
def test_other_forms_are_refused_with_an_example(written):
    with pytest.raises(InputError, match="2xtp4"):
        workers_of(written)


def test_sizes_that_do_not_go_together_are_refused():
    with pytest.raises(InputError, match="expert"):
        workers_of("1xtp2ep4")


def _token_s(model, device, prefill, decode, tokens=4096):
    plan = ServingPlan(prefill=workers_of(prefill), decode=workers_of(decode))
    return transfer_seconds(
        load_model(model), Precision(), load_device(device), plan, tokens=tokens
    )[1]


def test_a_cache_travels_over_one_link_of_every_device_that_holds_a_part_of_it():
    llama, device = load_model("llama-3.1-8b"), load_device("h100-sxm")
    whole = float(kv_bytes(llama, Precision(), batch=1, context=4096, page_tokens=1)) / 4096
    assert _token_s("llama-3.1-8b", "h100-sxm", "1xtp1", "1xtp1") == pytest.approx(
        whole / device.link_bytes_per_s
    )
    both = _token_s("llama-3.1-8b", "h100-sxm", "1xtp4", "1xtp4")
    assert both == pytest.approx(whole / 4 / device.link_bytes_per_s)
    assert _token_s("llama-3.1-8b", "h100-sxm", "1xtp4", "1xtp1") == pytest.approx(
        4 * both
    )  # the wider share waits
    assert _token_s("llama-3.1-8b", "h100-sxm", "8xtp1", "1xtp1") == pytest.approx(
        whole / BETWEEN_NODES_BYTES_PER_S
    )
    assert _token_s("deepseek-v3", "h200-sxm", "1xtp4", "1xtp4") == pytest.approx(
        _token_s(
            "deepseek-v3", "h200-sxm", "1xtp1", "1xtp1"
        )  # every device needs all of a latent cache
    )


def test_a_rack_behind_one_switch_is_one_node():
    across = _token_s("llama-3.1-8b", "h200-sxm", "4xtp4", "4xtp4")
    rack = _token_s("llama-3.1-8b", "gb200", "4xtp4", "4xtp4")
    assert rack < across * BETWEEN_NODES_BYTES_PER_S / load_device("gb200").link_bytes_per_s * 1.001
    assert _token_s("llama-3.1-8b", "gb200", "16xtp4", "4xtp4") == pytest.approx(across)


def test_a_service_without_workers_for_prompts_sends_no_cache():
    with pytest.raises(InputError, match="prompts"):
        transfer_seconds(
            load_model("llama-3.1-8b"),
            Precision(),
            load_device("h100-sxm"),
            ServingPlan(decode=workers_of("1xtp1")),
            tokens=10,
        )
