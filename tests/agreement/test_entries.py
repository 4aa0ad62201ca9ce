"""Every entry's steps in event simulations against the cost model's answer, for one request and for
sixteen.

Recordings in which everything is accepted, or nothing, keep requests in step, so that both sides
see one batch and one draft length in every iteration.
"""

from dataclasses import replace
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import pytest

from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.answers.steps.setting import Setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import stated
from costmodel.laws.claims import rate_claim
from costmodel.laws.drafting import dynamic_tree, stopped_chain, tree_policy
from costmodel.method import Batch, Stop
from costmodel.method_library import load_method, priced_alike
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions, SpeculationOptions
from simulator.loop.request import Workload
from simulator.timing.cost_timer import CostModelDraft, CostModelTimer, TableSize
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.expansions import Expansions
from traces.kinds.tree import Tree

BATCHES, PROMPT, OUTPUT, K = (1, 16), 500, 120, 4
ONCE = sorted(set(priced_alike().values()))  # entries that differ in labels alone cost the same
DRAFTING = [slug for slug in ONCE if load_method(slug).drafts]
SPREAD = [slug for slug in ONCE if "context_parallel" in load_method(slug).deployment]
PLAIN = [
    slug
    for slug in ONCE
    if not (load_method(slug).drafts or load_method(slug).has_own_pace or slug in SPREAD)
]
TREES = [slug for slug in DRAFTING if load_method(slug).drafts_trees]
# where every request leaves after the first part, simulations run no other; the estimate takes all
# parts to run
CASES = [
    (slug, accepts)
    for slug in DRAFTING
    for accepts in (False, True)
    if accepts or load_method(slug).batch.parts == 1
]
STATIC = Tree.from_paths([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0)])


def setting_of(slug, engine="vllm"):
    method = load_method(slug)
    return build_setting(
        DecodingConfiguration(
            method=slug,
            draft_model="llama-3.2-1b" if method.needs_draft_model else None,
            deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine=engine),
        )
    )


@cache
def recorded(accepts, tokens=2000):
    """One text of which the drafter's first choice is always right, or none of its choices ever."""
    left, sure = np.arange(tokens, 0, -1), np.tile([0.6, 0.2, 0.1, 0.05], (tokens, 1))
    return AcceptanceTrace(
        offsets=np.array([0, tokens]),
        emitted=np.minimum(left, 4096) if accepts else np.ones(tokens, dtype=np.int64),
        rank=np.full(tokens, 0 if accepts else -1),
        rank_width=4,
        depth_invariant=True,
        draft_ids=np.tile(np.arange(4), (tokens, 1)),
        draft_probs=sure,
        target_probs=sure,
        emitted_target_prob=np.full(tokens, 0.6 if accepts else 0.01),
        residual_mass=np.full(tokens, 0.05),
    )


@cache
def candidates(positions):
    """At every position the same tree of three levels, with three candidates at each node, none of
    them right."""
    parents, ranks = [], []
    level = [-1]
    for _ in range(3):
        following = []
        for parent in level:
            for rank in range(3):
                following.append(len(parents))
                parents.append(parent)
                ranks.append(rank)
        level = following
    count = len(parents)
    return Expansions(
        offsets=np.arange(positions + 1) * count,
        parents=np.tile(parents, positions),
        rank=np.tile(ranks, positions),
        draft_prob=np.tile(np.array([0.6, 0.3, 0.1])[ranks], positions),
        on_path=np.zeros(positions * count, bool),
    )


class Timers(NamedTuple):
    """Of one entry: both answer from tables that are made once for all batches and recordings."""

    setting: Setting
    target: CostModelTimer
    draft: CostModelDraft


@lru_cache(maxsize=2)
def timers_of(slug, engine="vllm"):
    setting = setting_of(slug, engine)
    most = TableSize(rows=16 * 800, requests=16, context_tokens=800, query_tokens=K + 1)
    return Timers(setting, CostModelTimer(setting, least=most), CostModelDraft(setting, least=most))


def step_s(timers, options, batch):
    """Mean seconds of an iteration in which all requests decode."""
    work = Workload(
        arrival_s=np.zeros(batch),
        prompt_tokens=np.full(batch, PROMPT),
        output_tokens=np.full(batch, OUTPUT),
    )
    scheduler = SchedulerOptions(kv_blocks=4_000, token_budget=100_000)
    timed = replace(options, draft=timers.draft) if options is not None else None
    scenario = Scenario(workload=work, scheduler=scheduler, timer=timers.target, speculation=timed)
    result = simulate(scenario)
    first = result.first_token_s[0]
    return (result.clock_s - first) / (result.iterations - 1)


def price(setting, claim, batch):
    return float(estimate(setting, claim, batch=float(batch), context=PROMPT + OUTPUT / 2.0).step_s)


def first_draft_s(timers, claim, batch):
    """What a run's first step waits for its draft, shared out over its steps, where the others' are
    made ahead."""
    if timers.setting.drafter.method.batch.on_miss != "wait":
        return 0.0
    waits_s = claim.foreseen_ratio * timers.draft(batch, K, float(batch * PROMPT), 0)
    return waits_s / np.ceil((OUTPUT - 1) / claim.tokens_per_step)


def assert_alike(timers, options, claim):
    """Simulator and law say the same of a step, for every batch."""
    found = [step_s(timers, options, batch) for batch in BATCHES]
    expected = [
        price(timers.setting, claim, batch) + first_draft_s(timers, claim, batch)
        for batch in BATCHES
    ]
    assert found == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(("slug", "accepts"), CASES)
def test_a_simulated_step_costs_what_the_estimate_says(slug, accepts):
    method = load_method(slug)
    timers = timers_of(slug)
    options = SpeculationOptions(topology=K, trace=recorded(accepts), batch=method.batch)
    assert_alike(timers, options, rate_claim(method, float(accepts), K))


@pytest.mark.parametrize("slug", ["kangaroo", "specdec-pp", "layer-skip"])
@pytest.mark.parametrize(
    "stop",
    [
        Stop(rule="probability", at=0.7, least_tokens=2),
        Stop(rule="probability", at=0.7, least_tokens=2, unlikely_tokens=1),
        Stop(rule="product", at=0.5),
    ],
)
def test_a_simulated_draft_that_ends_early_costs_what_the_estimate_says(slug, stop):
    trace = recorded(False)
    options = SpeculationOptions(topology=K, trace=trace, stop=stop)
    assert_alike(timers_of(slug), options, stopped_chain(trace, K, stop, None))


@pytest.mark.parametrize("slug", [slug for slug in TREES if load_method(slug).batch == Batch()])
def test_a_simulated_tree_costs_what_the_estimate_says(slug):
    options = SpeculationOptions(topology=STATIC, trace=recorded(False))
    assert_alike(timers_of(slug), options, stated(1.0, STATIC))


@pytest.mark.parametrize(
    "slug", [slug for slug in TREES if load_method(slug).shape.kind == "dynamic_tree"]
)
def test_a_simulated_dynamic_tree_costs_what_the_estimate_says(slug):
    own = load_method(slug)
    trace = replace(recorded(False), expansions=candidates(2000))
    shape = replace(own.shape, nodes=9, depth=3, width=3, beam=min(own.shape.beam, 3))
    claim = dynamic_tree(trace, shape, None, stop=own.stop)
    options = SpeculationOptions(topology=tree_policy(shape, own.stop), trace=trace)
    assert claim.lengths.mean_tokens > 3.0
    assert_alike(timers_of(slug), options, claim)


@pytest.mark.parametrize("slug", PLAIN)
def test_a_simulated_pass_of_a_changed_target_costs_what_the_estimate_says(slug):
    assert_alike(timers_of(slug), None, rate_claim(load_method(slug), 0.0, 0))


def test_what_is_not_run_sets_its_own_pace():
    """Scenarios state masked blocks as `blocks`, and how a model is spread; others are
    predicted."""
    assert {*DRAFTING, *PLAIN, *SPREAD} == {
        slug for slug in ONCE if not load_method(slug).has_own_pace
    }
    assert len(CASES) > 50 and len(TREES) > 10
