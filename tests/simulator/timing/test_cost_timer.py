"""Tables of the cost model against the cost model, and the simulator's steady state against its
estimate."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.answers.estimate import Setting, prefill_s, step_cost
from costmodel.answers.settings import build_setting
from costmodel.answers.steps.planned_step import planned_step
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.drafters.drafter import build_drafter
from costmodel.engine_library import load_engine
from costmodel.engines.record.overhead import BARE
from costmodel.laws.acceptance import Acceptance, geometric
from costmodel.method_library import load_method
from costmodel.parallel.plan import ParallelPlan
from costmodel.passes.deployment import Deployment
from costmodel.passes.precision import Precision
from hardware_profiles.loader import load_device
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions, SpeculationOptions
from simulator.loop.request import Workload
from simulator.loop.tables import draft_passes_s
from simulator.timing.cost_timer import (
    CostModelDraft,
    CostModelTimer,
    TabledTimer,
    TableSize,
    below,
    query_axis,
    request_axis,
)
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree
from traces.replay.walk import replay_chain, replay_tree

pytestmark = pytest.mark.heavy


def setting_of(model="llama-3.1-8b", drafter="eagle-3", **changes):
    target = load_model(model)
    deployment = Deployment(
        architecture=target, device=load_device("h100-sxm"), precision=Precision(), **changes
    )
    method = load_method(drafter)
    return Setting(
        deployment=deployment,
        drafter=build_drafter(method, target),
        overhead=load_engine("vllm").overhead(method.drafted_by),
        plain_overhead=load_engine("vllm").overhead("none"),
    )


@pytest.fixture(scope="module")
def setting():
    return setting_of()


def chain(draft_tokens):
    return geometric(0.5, draft_tokens)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-30b-a3b"])
@pytest.mark.parametrize("batch", [1, 7, 32, 128])
@pytest.mark.parametrize("draft_tokens", [0, 1, 5])
def test_decoding_costs_what_the_step_costs(model, batch, draft_tokens):
    setting = setting_of(model)
    for context in (0, 512, 4096):
        exact = step_cost(setting, chain(draft_tokens), batch=batch, context=context)
        found = CostModelTimer(setting)(batch, 1.0 + draft_tokens, float(batch * context), [])
        rough = batch not in request_axis(256)
        expected = float(exact.verify_s + exact.overhead_s)
        assert found == pytest.approx(expected, rel=0.02 if rough else 1e-9)


@pytest.mark.parametrize("prompt", [64, 256, 2048])
def test_a_prompt_that_the_host_launches_costs_what_its_pass_costs(prompt):
    setting = setting_of("llama-3.2-1b", host_layer_s=0.6e-3, host_pass_s=0.4e-3)
    timer = CostModelTimer(setting)
    alone = timer(0, 1.0, 0.0, [(prompt, 0)])
    priced = float(prefill_s(setting, prompt_tokens=prompt, drafts=False))
    assert alone == pytest.approx(priced + setting.plain_overhead.request_s, rel=1e-9)
    together = [timer(0, 1.0, 0.0, [(prompt, 0)] * prompts) for prompts in (1, 2, 3, 4)]
    assert all(np.diff(together) >= -1e-12), "more prompts never take less"
    beside = [timer(requests, 1.0, 100.0 * requests, [(prompt, 0)]) for requests in (1, 4)]
    assert min(beside) >= alone - 1e-12


@pytest.mark.parametrize("changes", [{"shared_prefix_tokens": 1000}, {"host_weights_ratio": 0.4}])
@pytest.mark.parametrize("draft_tokens", [0, 4])
def test_shared_prefixes_and_streamed_weights_cost_what_the_step_says(changes, draft_tokens):
    """The corner where the shared prefix ends lies within 64 tokens of context."""
    setting = setting_of(**changes)
    for batch, context in ((1, 512), (16, 960), (16, 1024), (32, 4096)):
        exact = step_cost(setting, chain(draft_tokens), batch=batch, context=context)
        found = CostModelTimer(setting)(batch, 1.0 + draft_tokens, float(batch * context), [])
        assert found == pytest.approx(float(exact.verify_s + exact.overhead_s), rel=1e-9)


def test_draft_passes_cost_what_the_step_says(setting):
    draft = CostModelDraft(setting)
    for batch, draft_tokens in ((1, 1), (8, 3), (32, 5)):
        exact = step_cost(setting, chain(draft_tokens), batch=batch, context=1024)
        assert draft(batch, draft_tokens, batch * 1024.0, 0) == pytest.approx(
            float(exact.draft_s), rel=1e-9
        )
    assert draft(0, 0, 0.0, 0) == 0.0
    assert draft(0, 0, 0.0, 512) > 0.0  # a feature head reads the prompt too


def test_a_prompt_alone_costs_what_the_estimate_says(setting):
    timer = CostModelTimer(setting)
    for tokens in (64, 512, 4096):
        exact = (
            float(prefill_s(setting, prompt_tokens=tokens, drafts=False))
            + setting.plain_overhead.request_s
        )
        assert timer(0, 0.0, 0.0, [(tokens, 0)]) == pytest.approx(exact, rel=0.03)


def test_chunks_cost_more_than_the_whole_and_read_the_cache_again(setting):
    timer = CostModelTimer(setting)
    whole = timer(0, 0.0, 0.0, [(8192, 0)])
    chunks = sum(timer(0, 0.0, 0.0, [(512, i * 512)]) for i in range(16))
    assert whole < chunks < 2 * whole
    far, near = timer(0, 0.0, 0.0, [(16, 65536)]), timer(0, 0.0, 0.0, [(16, 0)])
    reading = (
        65536
        * load_model("llama-3.1-8b").kv_values_per_token
        * 2
        / setting.device.bandwidth_bytes_per_s
    )
    assert far - near > 0.9 * reading


def test_mixing_is_cheaper_than_separate_passes_and_dearer_than_either(setting):
    timer = CostModelTimer(setting)
    decode, prompt = timer(64, 1.0, 64e3, []), timer(0, 0.0, 0.0, [(512, 0)])
    mixed = timer(64, 1.0, 64e3, [(512, 0)])
    assert max(decode, prompt) < mixed < decode + prompt


def test_time_never_falls_with_load(setting):
    timer = CostModelTimer(setting)
    context = [timer(16, 1.0, 16.0 * c, []) for c in range(0, 8000, 500)]
    assert np.all(np.diff(context) >= -1e-12)
    prompts = [timer(0, 0.0, 0.0, [(n, 0)]) for n in range(64, 4096, 64)]
    assert np.all(np.diff(prompts) >= -1e-4)


@pytest.mark.parametrize("plan", [ParallelPlan(tensor=2), ParallelPlan(tensor=2, pipeline=2)])
def test_a_plan_costs_what_the_planned_step_says(plan):
    setting = setting_of("llama-3-70b")
    setting = replace(setting, plain_overhead=BARE)
    exact = planned_step(setting, geometric(0.0, 0), plan, batch=32, context=2048)
    found = CostModelTimer(setting, plan)(32, 1.0, 32 * 2048.0, [])
    assert found == pytest.approx(float(exact.step_s), rel=1e-6)


def test_axes_hold_every_small_number_and_the_largest():
    assert request_axis(1).tolist() == [1, 2] and request_axis(1000)[-1] == 1000
    assert query_axis(TableSize(1, 1, 1, 40))[:9].tolist() == list(range(1, 10))
    assert query_axis(TableSize(1, 1, 1, 40))[-1] == 40
    axis = request_axis(300)
    low = below(axis)
    for value in range(1, 300):
        assert axis[low[value]] <= value <= axis[low[value] + 1]


def test_a_tree_is_priced_at_its_nodes(setting):
    tree = Tree.from_paths([(0,), (1,), (0, 0), (0, 1), (0, 0, 0)])
    acceptance = Acceptance(draft_tokens=5, tokens_per_step=2.0, proposed_tokens=5.0, tree=tree)
    exact = step_cost(setting, acceptance, batch=8, context=1024)
    size = TableSize(2048, 64, 4096, 6, tree)
    draft = CostModelDraft(setting)
    assert isinstance(draft, TabledTimer)
    tables = draft.tables(size, drafts=True)
    assert draft_passes_s(tables, 8, 5, 8 * 1024.0, 0) == pytest.approx(
        float(exact.draft_s), rel=1e-9
    )


@pytest.mark.parametrize("requests", [20, 512, 513, 3000])
def test_tables_of_a_least_size_answer_alike_alone_and_shared(requests):
    least = TableSize(2048, 512, 4096, 1)
    shared, alone = (
        CostModelTimer(setting_of(drafter="plain-decoding"), least=least) for _ in range(2)
    )
    sizes = [
        TableSize(300, requests, 900, 1),
        TableSize(5000, 7, 40_000, 1),
        TableSize(300, requests, 900, 1),
    ]
    tables = [shared.tables(size, drafts=False) for size in sizes]
    own = alone.tables(sizes[2], drafts=False)
    for name, value in own._asdict().items():
        np.testing.assert_array_equal(value, getattr(tables[2], name))
    assert tables[0].request_axis[-1] >= requests
    assert tables[1].row_s.size > 5000


def recording(seed=0, requests=40):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(50, 300, requests)
    n = int(lengths.sum())
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    hit = rng.random(n) < np.repeat(rng.uniform(0.4, 0.9, requests), lengths)
    rank = np.where(hit, 0, rng.integers(-1, 3, n)).astype(np.int8)
    emitted = np.ones(n, dtype=np.int16)
    for end, first in zip(offsets[1:], offsets[:-1], strict=True):
        for i in range(end - 2, first - 1, -1):
            emitted[i] = min(emitted[i + 1] + 1, 9) if rank[i] == 0 else 1
    return AcceptanceTrace(
        offsets=offsets, emitted=emitted, rank=rank, rank_width=3, depth_invariant=True
    )


TREE = Tree.from_paths([(0,), (1,), (0, 0), (0, 1), (0, 0, 0)])


@pytest.mark.parametrize(
    "policy",
    [
        {},
        {"prefill_first": True},
        {"chunked_prefill": False},
        {"reserve_ratio": 1.0},
        {"prefix_cache": True},
        {"preemption": "swap"},
        {"watermark_ratio": 0.01},
    ],
    ids=str,
)
@pytest.mark.parametrize("topology", [0, 3, TREE], ids=["plain", "chain", "tree"])
def test_a_busy_engine_decodes_as_the_steady_state_says(setting, policy, topology):
    """A closed loop of equal requests with short prompts: tokens per second of event and analytic
    mode agree."""
    trace, users, prompt, output = recording(), 16, 64, 800
    workload = Workload(
        arrival_s=np.zeros(96),
        prompt_tokens=np.full(96, prompt),
        output_tokens=np.full(96, output),
        users=users,
    )
    options = SchedulerOptions(kv_blocks=40000, max_requests=64, **policy)
    speculation = None
    if topology:
        speculation = SpeculationOptions(
            topology=topology, trace=trace, draft=CostModelDraft(setting)
        )
        replay = (
            replay_tree(trace, topology)
            if isinstance(topology, Tree)
            else replay_chain(trace, topology)
        )
        acceptance = Acceptance(
            draft_tokens=speculation.draft_tokens,
            tokens_per_step=replay.tokens_per_step,
            proposed_tokens=float(speculation.draft_tokens),
            tree=topology if isinstance(topology, Tree) else None,
        )
    else:
        acceptance = geometric(0.0, 0)
    result = simulate(
        Scenario(
            workload=workload,
            scheduler=options,
            timer=CostModelTimer(setting),
            speculation=speculation,
        )
    )
    assert result.finished.all()
    assert result.tokens_per_step == pytest.approx(acceptance.tokens_per_step, rel=0.02)
    step_s = float(step_cost(setting, acceptance, batch=users, context=prompt + output / 2).total_s)
    tpot = step_s / acceptance.tokens_per_step
    assert np.nanmean(result.tpot_s) == pytest.approx(tpot, rel=0.04)


def test_passes_that_only_decode_or_only_compute_a_prompt_are_those_that_were_measured():
    from real_runs.campaigns.results import offer_measured_passes

    offer_measured_passes()
    names = DeploymentNames(
        model="smollm2-135m",
        device="cpu-amd-epyc--1-thread",
        engine="none",
        dtype="fp32",
        fidelity="measured",
    )
    bare = build_setting(DecodingConfiguration(method="plain-decoding", deployment=names))
    deployment = bare.deployment
    timer = CostModelTimer(bare)
    for requests, context in ((1, 128), (4, 512)):
        wanted = step_cost(bare, chain(0), batch=requests, context=context).total_s
        assert timer(requests, 1.0, float(requests * context), []) == pytest.approx(
            float(wanted), rel=1e-6
        )
    calibrated = CostModelTimer(
        replace(bare, deployment=replace(deployment, fidelity="calibrated"))
    )
    assert timer(4, 1.0, 2048.0, []) != pytest.approx(calibrated(4, 1.0, 2048.0, []), rel=1e-3)
    prompt = float(prefill_s(bare, prompt_tokens=256))
    assert timer(0, 0.0, 0.0, [(256, 0)]) == pytest.approx(prompt, rel=0.02)
