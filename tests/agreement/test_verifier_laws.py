"""The laws of verification on recordings against the rules that real loops play: every text, every
draw, every coin."""

from functools import partial
from itertools import pairwise, product

import numpy as np
import pytest

from costmodel.laws.acceptance import law_for, replay_by, several_chains
from real_runs.decoding.verifiers import (
    VERIFIERS,
    best_path,
    best_path_rows,
    block_probabilities,
    block_residual,
    normalised,
    without,
)
from tests.traces.sampled_texts import recorded_texts
from traces.kinds.tree import Tree, chain_tree
from traces.replay.lossy import near_candidates, typical_candidates

WORDS, LENGTH = 3, 4
# the next token's law given the last one, in 64ths: half precision holds them exactly
TARGET = np.array([[24, 24, 16], [8, 40, 16], [21, 3, 40]]) / 64
DRAFT = np.array([[16, 40, 8], [16, 32, 16], [8, 24, 32]]) / 64
BUSH = Tree.from_paths([(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)])
CASES = [
    *(("token_rejection", chain_tree(count)) for count in (1, 3)),
    *(("block", chain_tree(count)) for count in (1, 2, 3)),
    *(
        ("multi_path_block", several_chains(paths, length))
        for paths, length in ((1, 3), (2, 1), (2, 2), (3, 2))
    ),
    *(
        (rule, BUSH)
        for rule in ("with_replacement", "without_replacement", "match", "fixed_candidates")
    ),
]


recording = partial(recorded_texts, target=TARGET, draft=DRAFT)


def draws(row, count, how):
    """Every way to choose candidates below a node, with its chance."""
    if how == "any":
        yield tuple(np.argsort(-row, kind="stable")[:count]), 1.0
        return
    for ids in product(range(WORDS), repeat=count):
        chance, left = 1.0, row
        for token in ids:
            chance *= left[token]
            if how == "distinct" and chance:
                left = normalised(without(left, token), left)
        if chance > 0:
            yield ids, chance


def by_node(verifier, tree, last, node=0, weight=1.0):
    """Every outcome of one step, node after node: its chance and the tokens emitted."""
    children = [child for child in range(tree.nodes) if tree.parents[child] == node]
    for ids, chance in draws(DRAFT[last], len(children), verifier.draws):
        verdict, left = verifier.rule(TARGET[last], DRAFT[last], ids), weight * chance
        for child, token, accept in zip(children, ids, verdict.accept, strict=True):
            if left * accept > 0:
                for further, rest in by_node(verifier, tree, token, child, left * accept):
                    yield further, (token, *rest)
            left *= 1 - accept
        yield from ((left * verdict.residual[token], (token,)) for token in range(WORDS))


def by_chain(tree, last):
    """As `by_node`, of chains that are judged as a whole."""
    length = tree.depth - 1
    count = tree.draft_tokens // length
    chains = list(product(range(WORDS), repeat=length))
    qs = [[DRAFT[token] for token in (last, *chain[:-1])] for chain in chains]
    ps = [[TARGET[token] for token in (last, *chain)] for chain in chains]
    alone = [
        np.prod([q[token] for q, token in zip(*each, strict=True)])
        for each in zip(qs, chains, strict=True)
    ]
    for ids in product(range(len(chains)), repeat=count):
        left = np.prod([alone[i] for i in ids])
        best = ids[best_path([ps[i] for i in ids], [qs[i] for i in ids], [chains[i] for i in ids])]
        rows = best_path_rows(ps[best], qs[best], chains[best], count)
        chances, ratios = block_probabilities(ps[best], rows, chains[best])
        for cut in range(length, -1, -1):
            here = left * (chances[cut - 1] if cut else 1.0)
            left -= here
            residual = block_residual(
                ps[best][cut], rows[cut] if cut < length else None, ratios[cut]
            )
            yield from (
                (here * residual[token], (*chains[best][:cut], token)) for token in range(WORDS)
            )


def expected_steps(rule, tree):
    """Steps to write the length, by the rule that real loops play."""
    played = VERIFIERS[rule]
    outcomes = {
        last: list(by_chain(tree, last) if played.rule is None else by_node(played, tree, last))
        for last in range(WORDS)
    }
    for law in outcomes.values():
        assert sum(chance for chance, _ in law) == pytest.approx(1)
    needed = {0: np.zeros(WORDS)}
    for left in range(1, LENGTH + 1):
        needed[left] = np.array(
            [
                1
                + sum(
                    c * (needed[left - len(t)][t[-1]] if len(t) < left else 0)
                    for c, t in outcomes[last]
                )
                for last in range(WORDS)
            ]
        )
    return needed[LENGTH][0]


@pytest.mark.parametrize(
    ("rule", "tree"), CASES, ids=[f"{rule}-{tree.draft_tokens}" for rule, tree in CASES]
)
def test_a_law_needs_the_steps_of_the_rule_that_loops_play(rule, tree):
    """Every text of four tokens, weighed by its probability, against every draw and every coin of
    every step."""
    texts = list(product(range(WORDS), repeat=LENGTH))
    weight = [np.prod([TARGET[a, b] for a, b in pairwise((0, *text))]) for text in texts]
    trace = recording(texts)
    steps = replay_by(trace, law_for(trace, rule, (tree,), strict=True), tree).steps
    assert steps @ weight == pytest.approx(expected_steps(rule, tree), rel=1e-9)


@pytest.mark.parametrize("rule", ["typical", "near_match"])
def test_a_lossy_law_keeps_the_candidates_that_the_rule_keeps(rule):
    texts = list(product(range(WORDS), repeat=2))
    trace = recording(texts)
    stays = {"typical": typical_candidates, "near_match": near_candidates}[rule](trace)
    before = [last for text in texts for last in (0, text[0])]
    played = [
        VERIFIERS[rule].rule(TARGET[last], None, ids).accept
        for last, ids in zip(before, trace.draft_ids, strict=True)
    ]
    assert stays.tolist() == (np.array(played) > 0).tolist()
    assert 0 < stays.mean() < 1


def test_a_lossy_law_takes_the_longest_path_that_stays():
    """Where the next token does not depend on the last one, every step is alike: counted by
    hand."""
    target, draft = np.array([[40, 20, 4]] * WORDS) / 64, np.array([[24, 32, 8]] * WORDS) / 64
    trace = recording([[0, 1, 2] * 40], target=target, draft=draft)
    law = law_for(trace, "near_match", (2,), at={"ratio": 0.75}, strict=True)
    assert law.lossy
    assert (
        replay_by(trace, law, 2).tokens_per_step == 1
    )  # its likeliest candidate, 1, has half of 0's probability
    both = Tree.from_paths([(0,), (1,), (1, 0), (1, 1)])
    assert replay_by(trace, law, both).tokens_per_step == 3
    looser = law_for(trace, "near_match", (2,), at={"ratio": 0.5}, strict=True)
    assert replay_by(trace, looser, 2).tokens_per_step == 3


@pytest.mark.parametrize("rule", sorted(VERIFIERS))
def test_every_rule_of_the_loops_has_a_law(rule):
    assert law_for(recording([[0, 1]]), rule, (1,), strict=True).rule == rule
