"""The batch that fits: what an engine keeps, never more with a drafter, exact against the count to the byte."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.acceptance import geometric
from costmodel.estimate import needed_bytes
from costmodel.fragmentation import require_room, reserve, room
from costmodel.memory import activation_bytes, kv_bytes
from costmodel.overheads import engine_names
from costmodel.scenario import Scenario, build_setting
from hardware_profiles.errors import InfeasibleError, UnknownNameError
from hardware_profiles.units import GIB

EAGLE = build_setting(Scenario(model="llama-3.1-8b", device="h100-sxm", method="eagle-3"))
BARE = build_setting(Scenario(model="llama-3.1-8b", device="h100-sxm", method="n-gram", engine="none"))
GEMMA = build_setting(Scenario(model="gemma-2-9b", device="h100-sxm", method="n-gram"))


def test_every_engine_has_a_reserve_with_its_source():
    for engine in engine_names():
        held = reserve(engine)
        assert held.engine == engine and 0.5 < held.usable_ratio <= 1.0 and held.block_tokens >= 1
        assert "ASSUMED" in held.source or engine == "none"
    with pytest.raises(UnknownNameError, match="nearest: vllm"):
        reserve("vlm")


@given(context=st.integers(1, 60_000), k=st.integers(0, 8), engine=st.sampled_from(engine_names()))
def test_the_largest_batch_fills_the_memory_and_one_more_does_not(context, k, engine):
    found = room(EAGLE, geometric(0.7, k), context=context, held=reserve(engine))
    each = found.request_bytes + found.drafter_request_bytes
    fixed = found.weight_bytes + found.drafter_bytes + found.reserve_bytes
    held, formats = reserve(engine), EAGLE.deployment.precision
    buffers = activation_bytes(EAGLE.target, formats, tokens=held.pass_tokens, logit_rows=held.logit_rows)

    def filled(batch):
        return fixed + batch * each + max(0.0, batch * found.pass_bytes - float(buffers))

    assert filled(found.largest_batch) <= found.usable_bytes * (1 + 1e-9)
    assert filled(found.largest_batch + 1) > found.usable_bytes * (1 - 1e-9)


@given(pages=st.integers(1, 2000))
def test_without_an_engine_it_is_the_count_to_the_byte(pages):
    """On whole pages `memory` and `fragmentation` count the same bytes."""
    context = 16 * pages - 1  # with the token that a step adds
    off = geometric(0.7, 0)
    found = room(BARE, off, context=context, held=reserve("none"))
    fits = needed_bytes(BARE, off, batch=np.arange(1.0, 20_000.0), context=context) <= BARE.device.memory_bytes
    assert min(found.largest_batch, 19_999) == int(fits.sum())


@given(context=st.integers(1, 32_000), k=st.integers(1, 8))
def test_a_drafter_never_makes_room(context, k):
    off, on = (room(EAGLE, geometric(0.7, each), context=context, held=reserve("vllm")) for each in (0, k))
    assert on.largest_batch <= off.largest_batch
    assert off.drafter_bytes == off.drafter_request_bytes == 0.0 < on.drafter_bytes
    assert on.drafter_request_bytes > 0.0


def test_half_a_block_is_wasted_on_average():
    """Over contexts of every remainder the rounding of `memory` wastes what is reckoned here, to half a token."""
    p = EAGLE.deployment.precision
    contexts = np.arange(1601, 1617)
    rounded = kv_bytes(EAGLE.target, p, batch=1, context=contexts) - kv_bytes(
        EAGLE.target, p, batch=1, context=contexts, page_tokens=1
    )
    found = room(EAGLE, geometric(0.7, 0), context=1600, held=reserve("vllm"))
    token = float(kv_bytes(EAGLE.target, p, batch=1, context=1, page_tokens=1))
    assert found.waste_bytes == pytest.approx(8 * token)
    assert abs(found.waste_bytes - rounded.mean()) <= token / 2 + 1e-6
    assert room(EAGLE, geometric(0.7, 0), context=1600, held=reserve("sglang")).waste_bytes == 0.0


def test_windows_stop_growing():
    short, long = (room(GEMMA, geometric(0.7, 0), context=c, held=reserve("vllm")) for c in (8_000, 16_000))
    assert long.request_bytes < 1.9 * short.request_bytes


@given(context=st.integers(1, 30_000), more=st.integers(1, 10_000))
def test_longer_requests_leave_room_for_fewer(context, more):
    short, long = (room(EAGLE, geometric(0.7, 3), context=c, held=reserve("vllm")) for c in (context, context + more))
    assert long.largest_batch <= short.largest_batch


def test_more_devices_leave_more_room():
    batches = []
    for tp in (1, 2, 4):
        setting = build_setting(Scenario(model="llama-3.1-8b", device="h100-sxm", tensor_parallel=tp))
        batches.append(room(setting, geometric(0, 0), context=4096, held=reserve("vllm")).largest_batch)
    assert batches == sorted(batches) and batches[0] < batches[-1]


def test_what_does_not_fit_is_refused_with_numbers():
    setting = build_setting(Scenario(model="llama-3.1-70b", device="l4"))
    found = room(setting, geometric(0, 0), context=1024, held=reserve("vllm"))
    assert found.largest_batch == 0
    with pytest.raises(InfeasibleError, match=r"memory: llama-3.1-70b takes 131\.\d GiB of weights.* on each l4"):
        require_room(setting, found)
    require_room(EAGLE, room(EAGLE, geometric(0, 0), context=1024, held=reserve("vllm")))


def test_logits_of_fewer_rows_take_less():
    p = EAGLE.deployment.precision
    full, last = (activation_bytes(EAGLE.target, p, tokens=8192, logit_rows=rows) for rows in (None, 1024))
    assert float(full - last) == pytest.approx((8192 - 1024) * 4 * EAGLE.target.vocab)
    assert float(last) < 2 * GIB
