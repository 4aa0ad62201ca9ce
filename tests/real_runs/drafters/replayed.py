"""A real loop over a tree beside plain decoding, and the steps that ranks replay: what drafters are
held to."""

import numpy as np
from hypothesis import strategies as st

from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.tree_speculative import speculate_tree
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree, chain_tree
from traces.replay.walk import replay_tree, step_starts

TREE = Tree.from_paths([(0,), (1,), (3,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (0, 0, 2)])
RUNS = {
    "prompt": st.lists(st.integers(1, 96), min_size=1, max_size=10),
    "temperature": st.sampled_from([0.0, 0.7]),
    "tree": st.sampled_from([TREE, chain_tree(1), chain_tree(3)]),
    "length": st.integers(1, 45),
}
"""Runs of three levels at most, drawn."""


def run_beside_plain(model, propose, prompt, tree, *, temperature=0.0, length=40):
    """A run of the loop and one of plain decoding, which must give the same text."""
    sampler = Sampler(temperature=temperature, seed=2, request="r", positions=length)
    run = speculate_tree(model, prompt, propose, sampler, tree=tree, max_new_tokens=length)
    plain = generate(model, prompt, sampler, max_new_tokens=length)
    assert (run.tokens, run.ended) == (plain.tokens, plain.ended)
    return run, plain


def replayed_steps(arrays, tree, *, depth_invariant=False):
    """Tokens of every step, from the ranks and the accepted lengths of one text."""
    trace = AcceptanceTrace(
        offsets=np.array([0, len(arrays["rank"])]),
        first_step_position=1,
        emitted=arrays["emitted"],
        rank=arrays["rank"],
        rank_width=16,
        depth_invariant=depth_invariant,
    )
    starts = np.append(step_starts(trace, tree), trace.positions)
    assert replay_tree(trace, tree).steps.tolist() == [starts.size - 1]
    return np.diff(starts).tolist()


def run_and_told(observed, propose, model, prompt, tree, **options):
    """A run of the loop with a drafter, and the steps that its observed ranks replay."""
    run, plain = run_beside_plain(model, propose, prompt, tree, **options)
    arrays = observed.observe(prompt, plain)
    assert arrays["rank"].shape == (len(plain.tokens), observed.parameters["draft_depth"])
    return run, replayed_steps(arrays, tree)


def tokens_per_step(told):
    """Of the loop over five prompts, each of which takes the steps that are replayed."""
    steps = tokens = 0
    for seed in range(1, 6):
        run, replayed = told([seed, 5], TREE)
        assert list(run.emitted) == replayed
        steps, tokens = steps + len(run.emitted), tokens + sum(run.emitted)
    return tokens / steps
