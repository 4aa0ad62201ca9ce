"""Passes over masked blocks: what they cost against each other, and what they hold."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.answers.estimate import estimate, footprint_of
from costmodel.answers.fit import room
from costmodel.answers.settings import build_setting
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.laws.refining import blocks_in_flight, group_sizes, refined, waiting_ratio
from costmodel.method import Batch
from costmodel.method_library import load_method
from costmodel.passes.forward import pass_cost
from hardware_profiles.errors import InputError, UnknownNameError
from tests.property_examples import examples

AT = {"batch": np.array([1.0, 16.0]), "context": 600.0}


def setting(slug="fast-dllm", engine="none", model="llada-8b", batch=None, **fields):
    own = load_method(slug)
    method = replace(own, refine=replace(own.refine, **fields), batch=batch or own.batch)
    names = DeploymentNames(model=model, device="h100-sxm", engine=engine)
    asked = build_setting(DecodingConfiguration(method=slug, deployment=names))
    return replace(asked, drafter=replace(asked.drafter, method=method))


def step_s(asked, tokens=None, **at):
    return estimate(asked, refined(asked.drafter.method, tokens), **AT | at).step_s


def held(asked, **at):
    method = asked.drafter.method
    return footprint_of(asked, refined(method), **{"batch": 4, "context": 600} | at)


@pytest.mark.parametrize("forward", ["suffix", "block"])
def test_blocks_that_begin_when_the_last_is_done_are_plain_blocks(forward):
    plain = step_s(setting(forward=forward))
    assert step_s(setting(forward=forward, begin_ratio=1.0)) == pytest.approx(plain, rel=1e-12)
    assert np.all(step_s(setting(forward=forward, begin_ratio=0.5)) > plain)


def test_host_and_device_take_turns_where_a_layer_reads_from_the_device():
    """What is captured has no host to wait for; one operation after another, every pass over a
    block takes both times.
    """
    captured = {slug: step_s(setting(slug, "sglang")) for slug in ("fast-dllm", "dllm-cache")}
    for slug, seconds in captured.items():
        changed = setting(slug, "sglang", launch_ratio=3.0, waits_in_layers=True)
        assert step_s(changed) == pytest.approx(seconds, rel=1e-12)
    fields = {"launch_ratio": 1.0, "full_passes": 0}
    ahead, turns = (
        step_s(setting("fast-dllm", "transformers", waits_in_layers=waits, **fields))
        for waits in (False, True)
    )
    asked = setting("fast-dllm", "transformers")
    d = asked.deployment
    host_s = d.architecture.layers * d.host_layer_s + d.host_pass_s
    assert np.all(turns > ahead) and np.all(turns <= ahead + host_s * (1 + 1e-9))
    both = pass_cost(replace(d, host_waits=True), batch=1, query_tokens=32, context=600)
    device = pass_cost(
        replace(d, host_layer_s=0.0, host_pass_s=0.0), batch=1, query_tokens=32, context=600
    )
    assert float(both.total_s) == pytest.approx(float(device.total_s) + host_s)
    longer = step_s(setting("fast-dllm", "transformers", launch_ratio=1.5))
    assert np.all(longer > step_s(asked))


@pytest.mark.parametrize("slug", ["fast-dllm", "fast-dllm-prefix", "dllm-cache", "dkv-cache"])
def test_a_cache_that_is_renewed_in_every_pass_is_none(slug):
    alone = Batch()
    canvas = {
        "forward": "full",
        "full_passes": 0,
        "full_every": 0,
        "canvas_every": 0,
        "computed_ratio": 1.0,
    }
    assert step_s(setting(slug, batch=alone, full_every=1)) == pytest.approx(
        step_s(setting(slug, batch=alone, **canvas))
    )


@settings(max_examples=examples(25), deadline=None)
@given(
    few=st.floats(0.05, 1.0),
    many=st.floats(0.05, 1.0),
    every=st.integers(1, 30),
    ratio=st.floats(0.05, 0.95),
)
def test_less_work_never_costs_more(few, many, every, ratio):
    low, high = sorted((few, many))
    d2f = [step_s(setting("d2f", begin_ratio=each)) for each in (high, low)]
    assert np.all(d2f[0] <= d2f[1] * (1 + 1e-9))  # more blocks at once
    dkv = [step_s(setting("dkv-cache", full_every=each)) for each in (every, every + 1)]
    assert np.all(dkv[1] <= dkv[0] * (1 + 1e-9))
    part, whole = (step_s(setting("dllm-cache", computed_ratio=each)) for each in (ratio, 1.0))
    assert np.all(part <= whole * (1 + 1e-9))


def test_more_blocks_at_once_pay_where_each_commits_as_many():
    """Twice the rows of a pass cost less than twice the pass, so that blocks in flight bring more
    tokens a second."""
    one, several = setting("d2f", begin_ratio=1.0), setting("d2f", begin_ratio=0.5)
    gain = blocks_in_flight(several.drafter.method)
    alone, together = step_s(one, 2.0), step_s(several, 2.0 * gain)
    assert gain > 1.5
    assert np.all(together < gain * alone)


def test_what_is_stored_along_is_as_many_rows_as_are_committed():
    apart, along = (
        setting("d2f", begin_ratio=1.0, stores_along=False),
        setting("d2f", begin_ratio=1.0),
    )
    d = along.deployment
    rows = pass_cost(d, query_tokens=34.0, context=600.0 + 256.0 - 34.0, batch=AT["batch"]).total_s
    assert step_s(along, 2.0) == pytest.approx(rows)
    assert np.all(step_s(apart, 2.0) < step_s(along, 2.0))


def test_another_model_reads_the_same_tokens():
    apd = setting("adaptive-parallel-decoding", model="dream-7b")
    alone = replace(apd.drafter.method, refine=replace(apd.drafter.method.refine, auxiliary=""))
    without = replace(apd, drafter=replace(apd.drafter, method=alone))
    other = replace(apd.deployment, architecture=load_model("qwen2.5-0.5b"))
    own = pass_cost(other, batch=AT["batch"], query_tokens=256.0, context=600.0).total_s
    assert step_s(apd) - step_s(without) == pytest.approx(own)
    extra = held(apd).weights_bytes - held(without).weights_bytes
    assert extra == pytest.approx(2.0 * load_model("qwen2.5-0.5b").parameters, rel=1e-6)
    with pytest.raises(UnknownNameError, match="nobody"):
        step_s(setting("adaptive-parallel-decoding", auxiliary="nobody"))


def test_values_of_the_vocabulary_are_read_and_written():
    credits, none = setting("creditdecoding"), setting("creditdecoding", vocab_state_bytes=0.0)
    device = credits.device
    kept = 64 * credits.target.vocab * 4.0
    rate = device.bandwidth_bytes_per_s * device.constants.elementwise.bandwidth_efficiency
    more = step_s(credits) - step_s(none)
    assert more == pytest.approx(
        AT["batch"] * 2 * kept / rate + device.constants.elementwise.kernel_s
    )
    assert float(held(credits).cache_bytes - held(none).cache_bytes) == pytest.approx(4 * kept)


def test_groups_that_grow_cost_the_mean_of_their_passes():
    lpd = setting("lpd", model="lpd-xl")
    method, d = lpd.drafter.method, lpd.deployment
    found, before, stored = [], 0, 0
    for size in group_sizes(method, 20):
        cost = pass_cost(
            d, batch=2.0, query_tokens=float(size + before - stored), context=1.0 + stored
        )
        found.append(float(cost.total_s))
        stored, before = before, before + size
    ours = float(step_s(lpd, batch=1.0, context=1.0))
    assert ours == pytest.approx(np.mean(found))
    even = float(step_s(setting("lpd", model="lpd-xl", commit="static"), batch=1.0, context=1.0))
    assert even == pytest.approx(ours, rel=0.05)


def test_waiting_costs_passes_of_the_block_and_no_renewal():
    apart, together = (step_s(setting(batch=each)) for each in (Batch(), Batch(ragged="pad")))
    assert together[0] == pytest.approx(apart[0])
    assert together[1] > 1.05 * apart[1]
    passes = 32 / 2.77
    full = setting(forward="full", full_passes=0, batch=Batch())
    renewals = step_s(full)[1] / passes  # one full pass a block, whoever waits
    waited = passes * float(waiting_ratio(load_method("fast-dllm"), 2.77, 16.0))
    assert (together[1] - renewals) / (apart[1] - renewals) == pytest.approx(
        (waited - 1.0) / (passes - 1.0)
    )


def test_full_passes_hold_no_cache_and_dropped_entries_take_no_room():
    full, dual, sparse = (held(setting(slug)) for slug in ("llada", "fast-dllm", "sparse-dllm"))
    assert float(full.cache_bytes) == 0.0
    model = load_model("llada-8b")
    tokens = 600 + 256
    assert float(dual.cache_bytes) == pytest.approx(4 * tokens * model.kv_values_per_token * 2.0)
    assert float(sparse.cache_bytes) == pytest.approx(0.5 * float(dual.cache_bytes))
    assert float(full.pass_bytes) == float(dual.pass_bytes)
    exact = held(setting("sdar", model="qwen3-4b"))
    assert float(exact.pass_bytes) < 0.05 * float(dual.pass_bytes)  # no pass over prompt and canvas


@pytest.mark.parametrize("slug", ["llada", "fast-dllm", "d2f"])
def test_a_device_has_room_for_some_requests(slug):
    asked = setting(slug, engine="vllm")
    space = room(asked, refined(asked.drafter.method), context=600.0)
    assert 1 <= space.largest_batch < 100_000


def test_a_method_that_refines_nothing_is_refused():
    plain = load_method("plain-decoding")
    with pytest.raises(InputError, match="masked blocks"):
        refined(plain)
    asked = setting()
    assert float(
        estimate(asked, geometric(0.0, 0), batch=1, context=600.0).speedup
    ) == pytest.approx(1.0)
