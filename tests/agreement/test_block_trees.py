"""Trees of a drafter that drafts a block in one pass: the greedy law of its marginals, the replay of
its recorded trees, and event simulations with their price."""

import numpy as np
import pytest

from costmodel.answers.settings import build_setting
from costmodel.answers.steps.dynamic_step import dynamic_step
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.drafting import dynamic_tree, tree_policy
from costmodel.method import Shape
from costmodel.optimizers.trees.greedy_tree import greedy_values
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions, SpeculationOptions
from simulator.loop.request import Workload
from simulator.timing.cost_timer import CostModelDraft, CostModelTimer
from traces.library import read_trace
from traces.replay.dynamic import TreePolicy, paying_nodes, pick_trees, walk_policy
from traces.replay.walk import replay_chain

USERS = 6


@pytest.fixture(scope="module")
def heads(root):
    """Medusa heads, which know all levels after one pass."""
    return read_trace(root / "traces/recorded/level-3/smollm2-135m--medusa-heads--greedy.parquet")


def marginals(trees, position):
    """Probability by rank of every level of a position, which no two nodes may tell differently."""
    first, end = trees.offsets[position : position + 2]
    levels = trees.levels()[first:end]
    told = {}
    for level, rank, chance in zip(
        levels.tolist(),
        trees.rank[first:end].tolist(),
        trees.draft_prob[first:end].tolist(),
        strict=True,
    ):
        assert told.setdefault((level, rank), chance) == chance
    return [
        np.array([told[level, rank] for rank in range(len(told)) if (level, rank) in told])
        for level in range(1, levels.max() + 1)
    ]


@pytest.mark.parametrize(("cost_ratio", "free_nodes"), [(0.0, 0), (0.02, 0), (0.05, 3)])
@pytest.mark.parametrize("nodes", [3, 10])
def test_the_recorded_trees_are_grown_from_marginals(heads, nodes, cost_ratio, free_nodes):
    trees = heads.expansions.select(np.arange(0, heads.positions, 40))
    policy = TreePolicy(nodes=nodes, cost_ratio=cost_ratio, free_nodes=free_nodes)
    picked = pick_trees(trees, policy)
    for position in range(trees.positions):
        values = greedy_values(marginals(trees, position), nodes)
        assert picked.nodes[position] == paying_nodes(values.tolist(), cost_ratio, free_nodes)


@pytest.mark.parametrize("length", [1, 2, 4])
def test_a_tree_of_one_candidate_a_level_is_a_chain(heads, length):
    tree, _ = walk_policy(heads, TreePolicy(nodes=length, depth=length, width=1))
    chain = replay_chain(heads, length)
    # a tree ends with what was recorded of it; most of these hold the whole chain
    assert tree.tokens_per_step <= chain.tokens_per_step + 1e-12
    assert tree.tokens_per_step == pytest.approx(chain.tokens_per_step, rel=0.02)


@pytest.mark.parametrize(
    "shape",
    [
        Shape(kind="dynamic_tree", nodes=12, depth=5),
        Shape(kind="dynamic_tree", nodes=16, depth=5, cost_ratio=0.03, free_nodes=2),
    ],
    ids=["of a budget", "as many as pay"],
)
def test_simulated_block_trees_emit_draft_and_take_what_their_law_says(heads, shape):
    setting = build_setting(
        DecodingConfiguration(
            method="ddtree",
            deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="vllm"),
        )
    )
    law = dynamic_tree(heads, shape, None)
    work = Workload(
        arrival_s=np.zeros(USERS),
        prompt_tokens=np.full(USERS, 512),
        output_tokens=np.full(USERS, 2500),
    )
    speculation = SpeculationOptions(
        topology=tree_policy(shape), trace=heads, draft=CostModelDraft(setting)
    )
    scenario = Scenario(
        workload=work,
        scheduler=SchedulerOptions(kv_blocks=100_000),
        timer=CostModelTimer(setting),
        speculation=speculation,
    )
    result = simulate(scenario)
    c = result.counters
    assert result.tokens_per_step == pytest.approx(law.tokens_per_step, rel=0.04)
    assert c["drafted"] / c["steps"] == pytest.approx(law.lengths.mean_tokens, rel=0.04)
    step = dynamic_step(
        setting.deployment,
        setting.drafter,
        setting.overhead,
        law.lengths,
        batch=float(USERS),
        context=512.0 + 1250.0,
    )
    assert result.busy_s / result.iterations == pytest.approx(float(step.total_s), rel=0.06)


def test_a_tree_that_stops_where_nodes_do_not_pay_emits_as_much_a_second_as_the_best_budget(heads):
    """Counted on recorded text, under the roofline that it stops by: what the drafter knows of each
    step makes up for its belief in independent levels."""
    cost_ratio, free_nodes = 0.02, 2

    def per_second(policy):
        replay, trees = walk_policy(heads, policy)
        beyond = np.maximum(trees.nodes.astype(float) - free_nodes, 0.0)
        return replay.tokens_per_step / (1.0 + cost_ratio * beyond.mean())

    paying = per_second(TreePolicy(nodes=16, cost_ratio=cost_ratio, free_nodes=free_nodes))
    budgets = [per_second(TreePolicy(nodes=nodes)) for nodes in range(1, 17)]
    assert paying > 0.98 * max(budgets)
