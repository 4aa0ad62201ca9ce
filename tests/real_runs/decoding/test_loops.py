"""What loops show to watchers, how they time their phases, and what a layout keeps."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import real_runs.decoding.tree as tree_module
from real_runs.decoding.drafting import Watcher, watcher_of
from real_runs.decoding.dynamic_tree import DynamicPolicy, speculate_dynamic
from real_runs.decoding.sampled import speculate_sampled
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import DraftedTokens, matching, speculate
from real_runs.decoding.times import StepClock, StepTimes
from real_runs.decoding.tree import TreeLayout, ancestors, tree_mask, tree_positions
from real_runs.decoding.tree_speculative import by_levels, speculate_tree
from real_runs.drafters.early_exit import EarlyExit
from real_runs.drafters.prompt_lookup import PromptLookup
from tests.real_runs.accepted_path import accepted_path
from traces.kinds.tree import Tree, chain_tree

TREE = Tree.from_paths([(0,), (1,), (3,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (0, 0, 2)])


@st.composite
def parent_lists(draw):
    return [-1, *(draw(st.integers(0, node - 1)) for node in range(1, draw(st.integers(1, 14))))]


class Spy:
    """Draws drafts from another reader or proposer, and keeps what it is shown."""

    capture = (0, 2, 4)

    def __init__(self, drafter):
        self._drafter = drafter
        self.tokens, self.states, self.calls = [], {layer: [] for layer in self.capture}, 0

    def __call__(self, *arguments):
        return self._drafter(*arguments)

    def after_prefix(self, known, cache):
        return self._drafter.after_prefix(known, cache)

    def after_nodes(self, *arguments, **named):
        return self._drafter.after_nodes(*arguments, **named)

    def watch(self, tokens, hidden, kept):
        assert tuple(hidden) == self.capture
        self.calls += 1
        self.tokens += [tokens[row] for row in kept]
        for layer, states in hidden.items():
            assert len(states) == len(tokens)
            self.states[layer].append(states[list(kept)])


def run_loop(name, model, bridge, readers, spied):
    """One loop with a spy in the drafter's place."""
    sampler = Sampler(temperature=0, seed=0, request="", positions=30)
    spy = spied(EarlyExit(model, bridge) if name == "chain" else readers["early exit"])
    common = {"max_new_tokens": 30}
    if name == "chain":
        return spy, speculate(model, [7, 5], spy, sampler, draft_tokens=3, **common)
    if name == "tree":
        return spy, speculate_tree(model, [7, 5], by_levels(spy), sampler, tree=TREE, **common)
    if name == "dynamic":
        return spy, speculate_dynamic(model, [7, 5], spy, sampler, policy=DynamicPolicy(), **common)
    generator, options = (
        np.random.default_rng(0),
        {"verifier": "token_rejection", "tree": chain_tree(3)},
    )
    return spy, speculate_sampled(
        model, [7, 5], spy, generator=generator, temperature=1.0, **options, **common
    )


@pytest.mark.parametrize("name", ["chain", "tree", "dynamic", "sampled"])
def test_watchers_see_the_states_of_the_text_and_nothing_else(
    tiny_model, tiny_bridge, readers, name
):
    spy, run = run_loop(name, tiny_model, tiny_bridge, readers, Spy)
    text = [7, 5, *run.tokens]
    assert spy.calls == len(run.emitted) + 1
    assert max(run.emitted) > 1
    assert spy.tokens[: len(text) - 1] == text[:-1]
    full = tiny_model.forward(text, tiny_model.new_cache(len(text)), capture=Spy.capture).hidden
    for layer, pieces in spy.states.items():
        seen = torch.cat(pieces)[: len(text) - 1]
        torch.testing.assert_close(seen, full[layer][0, : len(text) - 1], atol=1e-4, rtol=1e-4)


def test_watchers_are_found_in_drafters_and_in_their_readers():
    spy = Spy(None)
    assert isinstance(spy, Watcher)
    assert watcher_of(spy) is spy
    assert watcher_of(by_levels(spy)) is spy
    assert watcher_of(PromptLookup()) is None


@pytest.mark.parametrize("name", ["chain", "tree", "dynamic"])
def test_phases_are_timed_only_when_asked(tiny_model, tiny_bridge, readers, name):
    sampler = Sampler(temperature=0, seed=0, request="", positions=20)
    common = {"max_new_tokens": 20}
    loops = {
        "chain": lambda **timed: speculate(
            tiny_model,
            [3],
            EarlyExit(tiny_model, tiny_bridge),
            sampler,
            draft_tokens=3,
            **common,
            **timed,
        ),
        "tree": lambda **timed: speculate_tree(
            tiny_model, [3], by_levels(readers["early exit"]), sampler, tree=TREE, **common, **timed
        ),
        "dynamic": lambda **timed: speculate_dynamic(
            tiny_model,
            [3],
            readers["early exit"],
            sampler,
            policy=DynamicPolicy(),
            **common,
            **timed,
        ),
    }
    assert loops[name]().times == ()
    run = loops[name](timed=True)
    assert len(run.times) == len(run.emitted)
    assert all(step.draft_s > 0 and step.verify_s > 0 and step.rest_s > 0 for step in run.times)
    assert all(
        step.draft_cpu_s >= 0 and step.verify_cpu_s > 0 and step.rest_cpu_s >= 0
        for step in run.times
    )


def test_the_clock_gives_every_second_to_one_phase(monkeypatch):
    ticks = iter([0.0, 1.0, 3.0, 7.0, 8.0, 10.0, 13.0])
    monkeypatch.setattr("real_runs.decoding.times.time.perf_counter", lambda: next(ticks))
    monkeypatch.setattr("real_runs.decoding.times.time.process_time", lambda: 0.0)
    clock = StepClock(timed=True, device=torch.device("cpu"))
    clock.end("draft")
    clock.end("verify")
    clock.end_step()
    clock.end("draft")
    clock.end("draft")
    clock.end_step()
    assert clock.steps == (
        StepTimes(draft_s=1, verify_s=2, rest_s=4),
        StepTimes(draft_s=3, rest_s=3),
    )
    assert sum(step.total_s for step in clock.steps) == 13.0


def test_a_cuda_device_is_waited_for_at_every_border_and_only_when_timed(monkeypatch):
    waits = []
    monkeypatch.setattr("torch.cuda.synchronize", waits.append)
    device = torch.device("cuda", 0)
    StepClock(timed=False, device=device).end_step()
    assert waits == []
    clock = StepClock(timed=True, device=device)
    clock.end("draft")
    clock.end_step()
    assert waits == [device] * 3


@given(parent_lists(), st.integers(0, 9))
def test_layouts_give_what_is_built_anew_without_building(parents, length):
    layout = TreeLayout(parents, 9)
    assert torch.equal(layout.mask(length), tree_mask(parents, length))
    assert torch.equal(layout.positions(length), tree_positions(parents, length))
    assert (
        layout.mask(length).untyped_storage().data_ptr()
        == layout.mask(9).untyped_storage().data_ptr()
    )
    assert [parent for node, parent in enumerate(parents) if node] == [
        next(here for here, below in enumerate(layout.children) if node in below)
        for node in range(1, len(parents))
    ]
    above = {node: {node} for node in range(len(parents))}
    for node, parent in enumerate(parents):
        above[node] |= above[parent] if parent >= 0 else set()
    assert [set(np.flatnonzero(row).tolist()) for row in ancestors(parents)] == list(above.values())


@given(parent_lists(), st.data())
def test_the_lazy_walk_takes_the_accepted_path(parents, data):
    tokens, answers = (
        data.draw(st.lists(st.integers(0, 2), min_size=len(parents), max_size=len(parents)))
        for _ in range(2)
    )
    logits = torch.eye(3)[answers]
    sampler = Sampler(temperature=0, seed=0, request="", positions=1)
    path, emitted = matching(sampler)(
        DraftedTokens(tokens=tokens, layout=TreeLayout(parents, 0)), logits, 0
    )
    assert path == accepted_path(parents, tokens, answers)
    assert emitted == [answers[node] for node in path]


def test_a_static_tree_is_laid_out_once_a_run(tiny_model, readers, monkeypatch):
    built = []
    original = tree_module.tree_mask
    monkeypatch.setattr(
        tree_module,
        "tree_mask",
        lambda parents, length: built.append(1) or original(parents, length),
    )
    sampler = Sampler(temperature=0, seed=0, request="", positions=40)
    run = speculate_tree(
        tiny_model, [4], by_levels(readers["early exit"]), sampler, tree=TREE, max_new_tokens=40
    )
    assert len(run.emitted) > 5
    assert len(built) == 2  # one for drafting, one for verifying
