"""The most users within limits are those of a count of every batch, and no looser limit serves fewer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.settings import build_setting
from costmodel.answers.workload import Limits
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.pricing import evaluate
from costmodel.optimizers.within_limits import MOST_USERS, most_within, placed_as

TPOT_S = st.floats(0.002, 0.08)
CONTEXTS = st.sampled_from([128, 1024, 8192])


def contender(acceptance=0.7, **names):
    place = {"model": "llama-3.1-8b", "device": "h100-sxm", "engine": "vllm"} | names
    question = DecodingConfiguration(method="eagle-3", deployment=DeploymentNames(**place))
    return Contender(
        configuration=question,
        setting=build_setting(question),
        candidates=[geometric(acceptance, k) for k in (0, 1, 3, 5)],
    )


EAGLE = contender()


@given(tight=TPOT_S, more=st.floats(0.0, 0.05), context=CONTEXTS)
def test_no_looser_limit_serves_fewer_users(tight, more, context):
    first, second = (
        most_within([EAGLE], context=context, limits=Limits(tpot_s=limit))
        for limit in (tight, tight + more)
    )
    assert second.users >= first.users
    assert (first.fastest is None) == (first.users == 0)


@given(tpot_s=TPOT_S, ttft_s=st.none() | st.floats(0.01, 0.5), context=CONTEXTS)
def test_something_is_allowed_at_every_batch_up_to_them_and_nothing_at_the_next(
    tpot_s, ttft_s, context
):
    limits = Limits(tpot_s=tpot_s, ttft_s=ttft_s)
    most = most_within([EAGLE], context=context, limits=limits)
    batches = np.arange(1.0, most.users + 2)
    allowed = evaluate(EAGLE, batch=batches, context=context, limits=limits).allowed.any(axis=0)
    assert allowed[: most.users].all()
    assert not allowed[most.users] or most.users == MOST_USERS


def test_the_fastest_there_keeps_the_limits_and_has_the_price_of_its_tokens():
    most = most_within([EAGLE], context=1024, limits=Limits(tpot_s=0.008, ttft_s=0.2))
    fastest, device = most.fastest, EAGLE.setting.device
    assert fastest.tpot_s <= 0.008 and fastest.ttft_s <= 0.2
    assert fastest.tokens_per_s == pytest.approx(most.users / fastest.tpot_s)
    per_hour = fastest.tokens_per_s * 3600 / 1e6
    assert fastest.usd_per_million * per_hour == pytest.approx(device.price_usd_per_hour)


def test_what_binds_is_what_one_user_more_misses():
    of_memory = most_within([EAGLE], context=8192, limits=Limits(tpot_s=10.0))
    assert of_memory.binds == "memory"
    assert most_within([EAGLE], context=8192, limits=Limits(tpot_s=0.004)).binds == "limits"
    small = contender(model="smollm2-135m", device="b200-sxm")
    tried = most_within([small], context=16, limits=Limits(tpot_s=10.0))
    assert (tried.users, tried.binds) == (MOST_USERS, "tried")


def test_a_rival_adds_users_and_never_takes_any():
    limits = Limits(tpot_s=0.006)
    alone = most_within([contender(0.3)], context=1024, limits=limits)
    beside = most_within([contender(0.3), contender(0.8)], context=1024, limits=limits)
    assert (
        beside.users > alone.users and beside.fastest.contender.candidates[-1].tokens_per_step > 3
    )


def test_a_place_that_cannot_be_is_none():
    assert placed_as([EAGLE], build_setting, tensor_parallel=3) is None
    (moved,) = placed_as([EAGLE], build_setting, tensor_parallel=2)
    assert moved.setting.devices == 2 and moved.candidates == EAGLE.candidates
