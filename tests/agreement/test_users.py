"""The laws of users agree with the steady part of simulations of their closed loop."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.answers.fit import room
from costmodel.answers.replicas import replica_curve
from costmodel.answers.settings import build_setting
from costmodel.answers.workload import Limits, Population, load_of_means, load_of_requests
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.within_limits import most_within
from simulator.engine import simulate
from simulator.results.steady import steady_summary
from simulator.scenario.arrivals import drawn_lengths
from simulator.scenario.build import prepare
from simulator.scenario.file import checked_scenario

pytestmark = pytest.mark.heavy
K, P = 3, 0.7


def configuration(device, draft_tokens=0):
    """Llama-3.1-8B under vLLM, with EAGLE-3 where anything is drafted."""
    method = "eagle-3" if draft_tokens else "plain-decoding"
    names = DeploymentNames(model="llama-3.1-8b", device=device)
    return DecodingConfiguration(method=method, deployment=names)


def acceptance(draft_tokens):
    return geometric(P if draft_tokens else 0.0, draft_tokens)


def law(setting, draft_tokens, load):
    """Requests per second of users on one replica, and what they see."""
    drafts = acceptance(draft_tokens)
    largest = room(setting, drafts, context=load.longest_context).largest_batch
    curve = replica_curve(
        setting,
        drafts,
        load,
        largest=min(largest, 1024),
        token_budget=setting.engine.scheduling.token_budget,
    )
    return curve.shared(load, np.ones(1), curve.batch[-1:])


def seen_by(people, device, prompt, output, *, count, draft_tokens=0):
    """The steady part of a simulated closed loop."""
    sections = {
        "requests": {
            "count": count,
            "rate_per_s": 1.0,
            "prompt_tokens": str(prompt),
            "output_tokens": str(output),
        },
        "deployment": {"model": "llama-3.1-8b", "device": device},
    }
    if draft_tokens:
        rates = [P ** (place + 1) for place in range(draft_tokens)]
        sections["speculation"] = {
            "method": "eagle-3",
            "acceptance": rates,
            "draft_tokens": draft_tokens,
        }
    closed = prepare(checked_scenario(sections, None)).of_users(people.users, people.think_s)
    found = steady_summary(simulate(closed.scenario(0)))
    assert found["window"]["reason"] is None
    return found


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
    people = Population(users=users, think_s=think_s)
    load = load_of_means(requests_per_s=1.0, prompt_tokens=prompt, output_tokens=output)
    setting = build_setting(configuration(device))
    rate, seen = law(setting, 0, replace(load, population=people))
    found = seen_by(people, device, prompt, output, count=max(2000, 10 * users))
    assert rate[0] == pytest.approx(found["tokens_per_s"] / output, rel=0.03)
    assert seen.times(output).e2e_s[0] == pytest.approx(found["e2e_s"]["mean"], rel=0.03)


@pytest.mark.parametrize("draft_tokens", [0, K])
@pytest.mark.parametrize(
    ("device", "users", "prompt", "output"),
    [
        ("h100-sxm", 8, 1024, 256),
        ("h100-sxm", 32, 1024, 256),
        ("h100-sxm", 64, 300, 600),
        ("h100-sxm", 200, 512, 256),
        ("l4", 8, 512, 128),
    ],
)
def test_users_who_ask_again_at_once_make_the_rate_of_a_simulated_closed_loop(
    device, users, prompt, output, draft_tokens
):
    """Rates and whole requests within 3 %, times per token within 2 %, of ten requests of every user.

    Nobody who asks again when an iteration ends waits for the rest of one, as the law has it: times
    to the first token are not compared.
    """
    lengths = f"uniform:{output // 2}:{output * 3 // 2}"
    drawn = drawn_lengths(str(prompt), lengths, 2000, np.random.default_rng(0))
    people = Population(users=users, think_s=0.0)
    load = replace(load_of_requests(drawn, requests_per_s=1.0, prompts=16), population=people)
    rate, seen = law(build_setting(configuration(device, draft_tokens)), draft_tokens, load)
    found = seen_by(
        people, device, prompt, lengths, count=max(1000, 10 * users), draft_tokens=draft_tokens
    )
    assert rate[0] == pytest.approx(found["requests_per_s"], rel=0.03)
    assert seen.tpot_s[0] == pytest.approx(found["tpot_s"]["mean"], rel=0.02)
    assert seen.times(output).e2e_s[0] == pytest.approx(found["e2e_s"]["mean"], rel=0.03)


@pytest.mark.parametrize("draft_tokens", [0, K])
@pytest.mark.parametrize(("device", "limit_s"), [("h100-sxm", 0.008), ("h100-sxm", 0.015)])
def test_users_who_decode_at_once_within_a_limit_do_so_in_a_simulation(
    device, limit_s, draft_tokens
):
    """The median wait for a step, which no prompt of others lengthens, within 2 %: waits are counted
    in bins of 1 %, and accepted tokens are drawn."""
    context, output, own = 2048, 1000, configuration(device, draft_tokens)
    contender = Contender(
        configuration=own, setting=build_setting(own), candidates=[acceptance(draft_tokens)]
    )
    most = most_within([contender], context=context, limits=Limits(tpot_s=limit_s))
    assert most.binds == "limits"
    people = Population(users=most.users, think_s=0.0)
    found = seen_by(
        people,
        device,
        context - output // 2,
        output,
        count=6 * most.users,
        draft_tokens=draft_tokens,
    )
    step_s = found["itl_s"]["p50"]
    tokens = acceptance(draft_tokens).tokens_per_step
    assert most.fastest.tpot_s == pytest.approx(step_s / tokens, rel=0.02)
    assert found["tpot_s"]["mean"] >= most.fastest.tpot_s, "prompts of others come in between"
