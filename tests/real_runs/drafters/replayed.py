"""A real loop over a tree beside plain decoding, and the steps that ranks replay: what drafters are held to."""

import numpy as np

from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.tree_speculative import speculate_tree
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.walk import replay_tree, step_starts


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
        offsets=np.array([0, len(arrays["rank"])]), first_step_position=1, emitted=arrays["emitted"],
        rank=arrays["rank"], rank_width=16, depth_invariant=depth_invariant,
    )  # fmt: skip
    starts = np.append(step_starts(trace, tree), trace.positions)
    assert replay_tree(trace, tree).steps.tolist() == [starts.size - 1]
    return np.diff(starts).tolist()
