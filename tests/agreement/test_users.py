"""The law of users who wait for their answers agrees with simulations of their closed loop."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.answers.fit import room
from costmodel.answers.replicas import replica_curve
from costmodel.answers.settings import build_setting
from costmodel.answers.workload import Population, load_of_means
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from simulator.engine import simulate
from simulator.results.steady import steady_summary
from simulator.scenario.build import prepare
from simulator.scenario.file import checked_scenario

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize(
    ("device", "users", "think_s", "prompt", "output"),
    [
        ("h100-sxm", 64, 2.0, 1024, 256),
        ("h100-sxm", 64, 10.0, 1024, 256),
        ("h100-sxm", 200, 10.0, 1024, 256),
        ("h100-sxm", 200, 10.0, 300, 600),
        ("l4", 40, 5.0, 512, 128),
    ],
)
def test_users_who_think_make_the_rate_of_a_simulated_closed_loop(
    device, users, think_s, prompt, output
):
    """Rates and whole requests within 3 %, to 90 % of what a replica finishes."""
    where = DeploymentNames(model="llama-3.1-8b", device=device)
    setting = build_setting(DecodingConfiguration(deployment=where))
    people = Population(users=users, think_s=think_s)
    load = load_of_means(requests_per_s=1.0, prompt_tokens=prompt, output_tokens=output)
    largest = room(setting, geometric(0.0, 0), context=load.longest_context).largest_batch
    curve = replica_curve(
        setting,
        geometric(0.0, 0),
        load,
        largest=min(largest, 1024),
        token_budget=setting.engine.scheduling.token_budget,
    )
    crowd = replace(load, population=people)
    rate, seen = curve.shared(crowd, np.ones(1), curve.batch[-1:])
    sections = {
        "requests": {
            "count": 10 * users,
            "rate_per_s": 1.0,
            "prompt_tokens": str(prompt),
            "output_tokens": str(output),
        },
        "deployment": {"model": "llama-3.1-8b", "device": device},
    }
    closed = prepare(checked_scenario(sections, None)).of_users(users, think_s)
    found = steady_summary(simulate(closed.scenario(0, count=max(2000, 10 * users))))
    assert rate[0] == pytest.approx(found["tokens_per_s"] / output, rel=0.03)
    assert seen.times(output).e2e_s[0] == pytest.approx(found["e2e_s"]["mean"], rel=0.03)
