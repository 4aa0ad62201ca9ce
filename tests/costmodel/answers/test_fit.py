"""The batch that fits: what an engine keeps, never more with a drafter, exact against the count to
the byte."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.estimate import footprint_of, needed_bytes
from costmodel.answers.fit import cache_tokens, fits, require_fit, require_room, room
from costmodel.answers.settings import build_setting
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.engine_library import engine_names, load_engine
from costmodel.laws.acceptance import geometric
from costmodel.passes.deployment import Deployment
from costmodel.passes.memory import activation_bytes, kv_bytes
from costmodel.passes.precision import Precision
from hardware_profiles.errors import InfeasibleError
from hardware_profiles.loader import load_device
from hardware_profiles.units import GIB

EAGLE = build_setting(
    DecodingConfiguration(
        method="eagle-3", deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm")
    )
)
BARE = build_setting(
    DecodingConfiguration(
        method="n-gram",
        deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="none"),
    )
)
GEMMA = build_setting(
    DecodingConfiguration(
        method="n-gram", deployment=DeploymentNames(model="gemma-2-9b", device="h100-sxm")
    )
)


def under(engine, setting=EAGLE):
    return replace(setting, engine=load_engine(engine).on(setting.device))


@given(context=st.integers(1, 60_000), k=st.integers(0, 8), engine=st.sampled_from(engine_names()))
def test_the_largest_batch_fills_the_memory_and_one_more_does_not(context, k, engine):
    setting = under(engine)
    found = room(setting, geometric(0.7, k), context=context)
    each = found.request_bytes + found.drafter_request_bytes
    fixed = found.weight_bytes + found.drafter_bytes
    buffers = setting.engine.buffer_bytes(setting.target, setting.deployment.precision)
    assert found.usable_bytes + found.reserve_bytes == pytest.approx(setting.device.memory_bytes)

    def filled(batch):
        more = max(0.0, batch * found.pass_bytes - buffers)
        return fixed + batch * each + setting.engine.memory.activations_ratio * more

    assert filled(found.largest_batch) <= found.usable_bytes * (1 + 1e-9)
    assert filled(found.largest_batch + 1) > found.usable_bytes * (1 - 1e-9)


@given(
    context=st.integers(500, 30_000), k=st.integers(0, 8), engine=st.sampled_from(engine_names())
)
def test_capacity_and_the_other_answers_count_the_same_memory(context, k, engine):
    """Half a block a request on average, or blocks rounded up: batches differ by less than those
    blocks."""
    setting, a = under(engine), geometric(0.7, k)
    batches = np.arange(1.0, 3000.0)
    exact = int(fits(setting, a, batch=batches, context=context).sum())
    found = room(setting, a, context=context)
    assert (
        abs(found.largest_batch - exact)
        <= 1 + found.largest_batch * setting.engine.memory.block_tokens / context
    )


@given(context=st.integers(100, 30_000), engine=st.sampled_from(engine_names()))
def test_a_cache_in_tokens_is_the_cache_in_requests(context, engine):
    setting = under(engine, BARE)
    page = setting.engine.memory.block_tokens
    tokens = cache_tokens(setting.deployment, setting.engine, context=context)
    held = room(setting, geometric(0.0, 0), context=context - 1.0)
    if held.pass_bytes * held.largest_batch < setting.engine.buffer_bytes(
        setting.target, BARE.deployment.precision
    ):
        batch, slack = tokens / context, (16 + page) / context  # of a request, lost to pages
        assert (
            batch * (1.0 - slack) - 1.0 <= held.largest_batch <= batch * (1.0 + slack) + 1.0
        )  # whole requests


@pytest.mark.parametrize("engine", engine_names())
def test_what_fits_is_what_is_not_refused(engine):
    setting, a = under(engine), geometric(0.7, 3)
    for batch in (1, 100, 1000):
        needed = footprint_of(setting, a, batch=batch, context=4096)
        if fits(setting, a, batch=batch, context=4096):
            require_fit(setting, needed, "it")
        else:
            with pytest.raises(
                InfeasibleError, match=r"it needs \d+\.\d GiB of weights and cache on each h100-sxm"
            ):
                require_fit(setting, needed, "it")


@given(pages=st.integers(1, 2000))
def test_without_an_engine_it_is_the_count_to_the_byte(pages):
    """On whole pages `memory` and `fit` count the same bytes."""
    context = 16 * pages - 1  # with the token that a step adds
    off = geometric(0.7, 0)
    found = room(BARE, off, context=context)
    batches = np.arange(1.0, 20_000.0)
    fit = needed_bytes(BARE, off, batch=batches, context=context) <= BARE.device.memory_bytes
    assert min(found.largest_batch, 19_999) == int(fit.sum())


@given(context=st.integers(1, 32_000), k=st.integers(1, 8))
def test_a_drafter_never_makes_room(context, k):
    off, on = (room(EAGLE, geometric(0.7, each), context=context) for each in (0, k))
    assert on.largest_batch <= off.largest_batch
    assert off.drafter_bytes == off.drafter_request_bytes == 0.0 < on.drafter_bytes
    assert on.drafter_request_bytes > 0.0


def test_half_a_block_is_wasted_on_average():
    """Over contexts of every remainder the rounding of `memory` wastes what is reckoned here, to
    half a token."""
    p = EAGLE.deployment.precision
    contexts = np.arange(1601, 1617)
    rounded = kv_bytes(EAGLE.target, p, batch=1, context=contexts) - kv_bytes(
        EAGLE.target, p, batch=1, context=contexts, page_tokens=1
    )
    found = room(EAGLE, geometric(0.7, 0), context=1600)
    token = float(kv_bytes(EAGLE.target, p, batch=1, context=1, page_tokens=1))
    assert found.waste_bytes == pytest.approx(8 * token)
    assert abs(found.waste_bytes - rounded.mean()) <= token / 2 + 1e-6
    assert room(under("sglang"), geometric(0.7, 0), context=1600).waste_bytes == 0.0


def test_windows_stop_growing():
    short, long = (room(GEMMA, geometric(0.7, 0), context=c) for c in (8_000, 16_000))
    assert long.request_bytes < 1.9 * short.request_bytes


@given(context=st.integers(1, 30_000), more=st.integers(1, 10_000))
def test_longer_requests_leave_room_for_fewer(context, more):
    short, long = (room(EAGLE, geometric(0.7, 3), context=c) for c in (context, context + more))
    assert long.largest_batch <= short.largest_batch


def test_more_devices_leave_more_room():
    batches = []
    for tp in (1, 2, 4):
        setting = build_setting(
            DecodingConfiguration(
                deployment=DeploymentNames(
                    model="llama-3.1-8b", device="h100-sxm", tensor_parallel=tp
                )
            )
        )
        batches.append(room(setting, geometric(0, 0), context=4096).largest_batch)
    assert batches == sorted(batches) and batches[0] < batches[-1]


def test_what_does_not_fit_is_refused_with_numbers():
    setting = build_setting(
        DecodingConfiguration(deployment=DeploymentNames(model="llama-3.1-70b", device="l4"))
    )
    found = room(setting, geometric(0, 0), context=1024)
    assert found.largest_batch == 0
    with pytest.raises(
        InfeasibleError, match=r"memory: llama-3.1-70b takes 131\.\d GiB of weights.* on each l4"
    ):
        require_room(setting, found)
    require_room(EAGLE, room(EAGLE, geometric(0, 0), context=1024))


def test_logits_of_fewer_rows_take_less():
    p = EAGLE.deployment.precision
    full, last = (
        activation_bytes(EAGLE.target, p, tokens=8192, logit_rows=rows) for rows in (None, 1024)
    )
    assert float(full - last) == pytest.approx((8192 - 1024) * 4 * EAGLE.target.vocab)
    assert float(last) < 2 * GIB


def share_of(ratio, device):
    """SGLang with a stated share of a device's memory."""
    engine = load_engine("sglang").on(device)
    return replace(engine, memory=replace(engine.memory, ratio=ratio, reserved_bytes=0.0))


def test_cache_capacity_by_hand():
    d = EAGLE.deployment
    h100, rules = d.device, share_of(0.5, d.device)
    weights = 8_030_261_248 * 2.0
    per_token = 32 * 2 * 8 * 128 * 2.0
    seen_bytes = h100.memory_bytes - rules.memory.unseen_bytes
    assert cache_tokens(d, rules, context=1600) == pytest.approx(
        (0.5 * seen_bytes - weights) / per_token
    )


def test_cache_capacity_of_a_running_engine():
    """DeepSeek-R1 on eight H200 under SGLang at a static share of 0.82: about 509,000 tokens
    (aisimulate, pull 263)."""
    h200 = load_device("h200-sxm")
    d = Deployment(
        architecture=load_model("deepseek-v3"),
        device=h200,
        precision=Precision(weights="fp8", kv="bf16"),
        tensor_parallel=8,
    )
    found = cache_tokens(d, share_of(0.82, h200), context=8192)
    print(f"\n{found:,.0f} tokens")
    assert found == pytest.approx(509_000, rel=0.05)
