"""Sampled replicas see what they see in their whole fleet, and nothing else can be sampled."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from simulator.engine import simulate
from simulator.loop.dealing import dealt_at_random
from simulator.loop.options import Scenario, SchedulerOptions
from simulator.loop.replica_sample import ReplicaSample, drawn_sample
from simulator.loop.request import Workload
from tests.simulator.sampled_fleets import sampled

TIMES = ("arrival_s", "scheduled_s", "first_token_s", "last_token_s", "ending")


def fleet_of(timer, seed, replicas, requests=120):
    rng = np.random.default_rng(seed)
    workload = Workload(
        arrival_s=np.sort(rng.uniform(0, 3, requests)),
        prompt_tokens=rng.integers(1, 30, requests),
        output_tokens=rng.integers(1, 20, requests),
    )
    options = SchedulerOptions(kv_blocks=40, token_budget=48, max_requests=6, watermark_ratio=0.1)
    return Scenario(workload=workload, scheduler=options, timer=timer, replicas=replicas)


ROUTERS = st.sampled_from(["round-robin", "random"])


@given(st.integers(2, 40), st.integers(40, 300), ROUTERS, st.data())
def test_places_are_those_that_the_router_gives(replicas, requests, router, data):
    size, seed = data.draw(st.integers(1, replicas)), data.draw(st.integers(0, 99))
    sample = drawn_sample(replicas, size, requests, seed, router)
    of = np.arange(requests) % replicas
    if router == "random":
        of = dealt_at_random(np.arange(requests), replicas, seed)
    assert sample.places.tolist() == np.flatnonzero(np.isin(of, sample.chosen)).tolist()
    assert np.array(sample.chosen)[sample.owners].tolist() == of[sample.places].tolist()
    assert len(set(sample.chosen)) == size and sorted(sample.chosen) == list(sample.chosen)


@given(st.integers(0, 99), st.integers(2, 9), ROUTERS, st.data())
def test_a_sampled_replica_does_to_the_last_bit_what_it_does_in_the_fleet(
    tabled_timer, seed, replicas, router, data
):
    fleet = replace(fleet_of(tabled_timer, seed, replicas), router=router, seed=seed)
    whole = simulate(fleet)
    sample = drawn_sample(replicas, data.draw(st.integers(1, replicas)), 120, seed, router)
    result = simulate(sampled(fleet, sample))
    for name in TIMES:
        np.testing.assert_array_equal(getattr(result, name), getattr(whole, name)[sample.places])
    assert np.array(sample.chosen)[result.replica].tolist() == whole.replica[sample.places].tolist()


def test_every_replica_is_drawn_equally_often():
    drawn = np.bincount([i for seed in range(400) for i in drawn_sample(8, 2, 8, seed).chosen])
    assert drawn.sum() == 800 and drawn.min() > 60 and drawn.max() < 140


def test_replicas_that_depend_on_others_are_refused(tabled_timer):
    sample = ReplicaSample(replicas=6, requests=120, chosen=(1, 4))
    alone = sampled(fleet_of(tabled_timer, 0, 6), sample)
    with pytest.raises(InputError, match=r"router: looks at the load of all replicas"):
        replace(alone, router="least-loaded")
    with pytest.raises(InputError, match=r"requests.users: wait for answers of all replicas"):
        replace(alone, workload=replace(alone.workload, users=3))
    with pytest.raises(InputError, match=r"sample: must have the replicas"):
        replace(alone, replicas=3)
    with pytest.raises(InputError, match=r"the fleet has 3 replicas, got 4"):
        drawn_sample(3, 4, 100, 0)
    with pytest.raises(InputError, match=r"as many requests, or more, got 5"):
        drawn_sample(6, 2, 5, 0)
