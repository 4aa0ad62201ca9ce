"""The cheapest device is the one that brute force finds, and a new grid asks the same drafters."""

import itertools

import pytest

from costmodel.answers.workload import Limits
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.optimizers.device_choices import device_choices
from costmodel.optimizers.drafters.named_drafters import drafter_source
from costmodel.optimizers.recommend import recommend
from costmodel.optimizers.search import search
from hardware_profiles.errors import InfeasibleError, InputError

pytestmark = pytest.mark.heavy

ASKED = DecodingConfiguration(deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm"))
DRAFTERS = [drafter_source("eagle-3:0.7"), drafter_source("n-gram:0.3")]
DEVICES = ("l4", "l40s", "a100-sxm-80", "h100-sxm", "b200-sxm")
SIZES = (1, 2, 4)


@pytest.fixture(scope="module")
def found():
    return recommend(ASKED, DRAFTERS, batches=[1, 16])


def brute(limits, batch, context):
    """Tokens per second and dollars of every device and size, each by a search of its own."""
    from dataclasses import replace

    for device, size in itertools.product(DEVICES, SIZES):
        there = replace(
            ASKED, deployment=replace(ASKED.deployment, device=device, tensor_parallel=size)
        )
        try:
            best = recommend(
                there, DRAFTERS, batches=[batch], contexts=[context], limits=limits
            ).winners[0]
        except (InfeasibleError, InputError):
            continue
        hourly = best.contender.setting.device.price_usd_per_hour
        yield device, size, best.tokens_per_s, hourly * size / 3600 / best.tokens_per_s * 1e6


@pytest.mark.parametrize("limits", [Limits(), Limits(tpot_s=0.008)])
def test_the_cheapest_is_that_of_brute_force(found, limits):
    rows = device_choices(
        found.contenders, DEVICES, batch=16, context=2048, limits=limits, sizes=SIZES
    )
    known = list(brute(limits, 16, 2048))
    device, size, rate, usd = min(known, key=lambda each: each[-1])
    assert (rows[0].device, rows[0].tensor_parallel) == (device, size)
    assert rows[0].tokens_per_s == pytest.approx(rate)
    assert rows[0].usd_per_million == pytest.approx(usd)
    assert {row.device for row in rows} == set(DEVICES)
    assert {row.device for row in rows if row.reason} == set(DEVICES) - {each[0] for each in known}


def test_what_fits_nowhere_is_last_and_says_so(found):
    rows = device_choices(
        found.contenders, ("h100-sxm", "l4"), batch=512, context=65536, limits=Limits(), sizes=(1,)
    )
    assert all(row.reason and not row.tokens_per_s for row in rows)


def test_asked_again_on_another_grid_the_answer_is_that_of_asking_at_once(found):
    limits = Limits(tpot_s=0.02)
    again = search(found.contenders, batches=[48], contexts=[1024], limits=limits)
    once = recommend(ASKED, DRAFTERS, batches=[48], limits=limits)
    for (one, *_), other in zip(again.ranked, once.winners, strict=True):
        assert one.configuration == other.configuration
        assert one.tokens_per_s == other.tokens_per_s
        assert one.intervals.speedup == other.intervals.speedup
