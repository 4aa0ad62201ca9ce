"""A schedule beside a server without the drafter."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.optimizers.against_off import against_off, off_schedule
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.schedule import batch_schedule
from costmodel.optimizers.search import search


def contender(acceptance, engine="vllm"):
    names = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine=engine)
    eagle = DecodingConfiguration(method="eagle-3", deployment=names)
    chains = [geometric(acceptance, k) for k in (0, 1, 2, 4)]
    return Contender(configuration=eagle, setting=build_setting(eagle), candidates=chains)


@given(acceptance=st.floats(0.0, 0.9), engine=st.sampled_from(["vllm", "none"]))
def test_a_schedule_is_never_worse_than_no_drafter_on_average(acceptance, engine):
    """It drafts only where it gains, or nothing at all."""
    (found,) = search(
        [contender(acceptance, engine)], batches=[1, 256], contexts=[1024], seed=0
    ).schedules
    drafts = any(draft_tokens for _, _, draft_tokens in found.schedule.ranges)
    if found.against_off is not None:
        assert drafts == (found.against_off.gain_ratio > 0.0)
        assert found.against_off.worst_loss_ratio < 1.0
    else:
        assert not drafts
    assert found.configuration.speculates == drafts
    assert 0.0 <= found.schedule.loss_ratio <= found.schedule.worst_loss_ratio


def test_what_ranges_without_drafts_lose_is_told_apart():
    batches, lengths = np.array([1, 2, 4, 8]), [0, 3]
    rates = np.array([[0.9, 2.0], [0.9, 1.5], [0.8, 0.5], [0.9, 0.4]])
    schedule = batch_schedule(batches.tolist(), lengths, rates)
    found = against_off(schedule, batches, lengths, rates, np.ones(4))
    assert round(found.idle_loss_ratio, 3) == round(found.worst_loss_ratio, 3) == 0.2
    assert found.gain_ratio > 0.0 and not found.off_altogether
    assert against_off(schedule, batches, lengths, rates, np.array([1, 1, 1, np.nan])) is None


def test_no_drafter_loses_what_the_best_lengths_gain():
    schedule = off_schedule(np.array([1, 64]), np.array([[0.9, 2.0], [0.9, 0.5]]), np.ones(2))
    assert schedule.ranges == ((1, 64, 0),)
    assert (schedule.loss_ratio, schedule.worst_loss_ratio) == (0.25, 0.5)
