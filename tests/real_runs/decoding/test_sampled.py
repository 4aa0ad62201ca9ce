"""The sampled loop's texts have plain sampling's distribution, summed exactly over a model of eight
tokens."""

import numpy as np
import pytest
import torch

from hardware_profiles.errors import InputError
from real_runs.decoding.generate import generate
from real_runs.decoding.sampled import speculate_sampled
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.verifiers import VERIFIERS, NodeVerdict, Verifier, rejection
from traces.kinds.tree import Tree, chain_tree

PROMPT, TEMPERATURE, RUNS, MANY = [3, 1], 0.8, 300, 1500
BUSH = Tree.from_paths([(0,), (1,), (0, 0), (0, 1), (1, 0)])
FORK = Tree.from_paths([(0,), (1,), (0, 0), (1, 0)])
LOOPS = [
    ("token_rejection", chain_tree(2)),
    ("block", chain_tree(2)),
    ("multi_path_block", FORK),
    ("with_replacement", BUSH),
    ("without_replacement", BUSH),
    ("fixed_candidates", BUSH),
]


@pytest.fixture(scope="module")
def expected(atom_model):
    """Exact chance of every text of three tokens, [8, 8, 8]."""
    texts = torch.cartesian_prod(*[torch.arange(8)] * 2)
    ids = torch.cat([torch.tensor([PROMPT] * 64), texts], dim=1)
    logits = (
        atom_model.forward(ids, atom_model.new_cache(4, batch=64)).logits.double() / TEMPERATURE
    )
    rows = torch.softmax(logits, dim=-1)[:, 1:].numpy()
    first = rows[0, 0]
    second = rows[::8, 1]
    return first[:, None, None] * second[:, :, None] * rows[:, 2].reshape(8, 8, 8)


def counts(model, reader, verifier, tree, *, runs, **options):
    generator, found, emitted = np.random.default_rng(7), np.zeros((8, 8, 8)), []
    for _ in range(runs):
        run = speculate_sampled(
            model,
            PROMPT,
            reader,
            verifier=verifier,
            tree=tree,
            temperature=TEMPERATURE,
            generator=generator,
            max_new_tokens=3,
            **options,
        )
        found[run.tokens] += 1
        emitted.append(len(run.emitted))
    return found, np.mean(emitted)


def excess(found, expected):
    """Chi-squared less its degrees of freedom, in standard deviations; rare texts are pooled."""
    wanted = expected.ravel() * found.sum()
    common = wanted >= 5
    wanted = np.append(wanted[common], wanted[~common].sum())
    found = np.append(found.ravel()[common], found.ravel()[~common].sum())
    freedom = wanted.size - 1
    return (((found - wanted) ** 2 / wanted).sum() - freedom) / np.sqrt(2 * freedom)


@pytest.mark.parametrize("runs", [RUNS, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "tree"), LOOPS, ids=[name for name, _ in LOOPS])
def test_texts_have_plain_samplings_distribution(
    atom_model, atom_reader, expected, name, tree, runs
):
    assert expected.sum() == pytest.approx(1)
    found, steps = counts(atom_model, atom_reader, name, tree, runs=runs)
    assert excess(found, expected) < 4
    assert 1 < steps < 2  # drafts are kept, and fall


def test_plain_sampling_has_that_distribution_too(atom_model, expected):
    found = np.zeros((8, 8, 8))
    for run in range(RUNS):
        sampler = Sampler(temperature=TEMPERATURE, seed=run, request="", positions=3)
        found[generate(atom_model, PROMPT, sampler, max_new_tokens=3).tokens] += 1
    assert excess(found, expected) < 4


def keep_all(target, drafter, ids):
    return NodeVerdict(accept=(1.0,) * len(ids), residual=target)


def old_residual(target, drafter, ids):
    return NodeVerdict(
        accept=rejection(target, drafter, ids, distinct=False).accept, residual=target
    )


@pytest.mark.parametrize(
    ("rule", "runs"),
    [
        (keep_all, 500),
        *(pytest.param(rule, MANY, marks=pytest.mark.slow) for rule in (old_residual, None)),
    ],
)
def test_a_wrong_or_lossy_verifier_is_seen_in_the_texts(
    atom_model, atom_reader, expected, rule, runs
):
    wrong = Verifier(name="wrong", lossless=False, draws="independent", rule=rule)
    verifier = wrong if rule else VERIFIERS["typical"]
    found, _ = counts(atom_model, atom_reader, verifier, chain_tree(2), runs=runs)
    assert excess(found, expected) > 6


def test_a_drafter_at_another_temperature_changes_steps_but_not_texts(
    atom_model, atom_reader, expected
):
    sharp, sharp_steps = counts(
        atom_model, atom_reader, "without_replacement", BUSH, runs=RUNS, draft_temperature=0.05
    )
    assert excess(sharp, expected) < 4
    assert sharp_steps > counts(atom_model, atom_reader, "without_replacement", BUSH, runs=RUNS)[1]


@pytest.mark.parametrize("name", sorted(VERIFIERS))
def test_greedy_texts_are_the_plain_ones(tiny_model, readers, name):
    tree = {"tree": BUSH, "chain": chain_tree(3), "chains": FORK}[VERIFIERS[name].shape]
    emitted = []
    for seed in range(1, 3):
        sampler = Sampler(temperature=0, seed=0, request="", positions=30)
        run = speculate_sampled(
            tiny_model,
            [seed, 5],
            readers["early exit"],
            verifier=name,
            tree=tree,
            temperature=0.0,
            draft_temperature=0.5,
            generator=np.random.default_rng(seed),
            max_new_tokens=30,
        )
        assert run.tokens == generate(tiny_model, [seed, 5], sampler, max_new_tokens=30).tokens
        emitted += run.emitted
    assert max(emitted) > 1


def test_the_same_generator_gives_the_same_text(tiny_model, readers):
    def text(seed):
        return speculate_sampled(
            tiny_model,
            [4, 5],
            readers["layer skip"],
            verifier="without_replacement",
            tree=BUSH,
            temperature=1.0,
            generator=np.random.default_rng(seed),
            max_new_tokens=20,
        )

    assert text(1) == text(1)
    assert text(1) != text(2)


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"temperature": -1.0}, "temperature"),
        ({"draft_temperature": 0.0}, "draft_temperature"),
        ({"draws": "independent"}, "draws"),
        ({"verifier": "block"}, "tree"),
        ({"verifier": "multi_path_block"}, "tree"),
        ({"verifier": "nonsense"}, "verifier"),
        ({"tree": Tree.from_paths([(1,)])}, "tree"),
        ({"tree": Tree.from_paths([(rank,) for rank in range(98)])}, "ranks"),
        ({"max_new_tokens": 0}, "prompt"),
    ],
)
def test_what_cannot_be_judged_is_refused(tiny_model, readers, wrong, key):
    options = {
        "verifier": "without_replacement",
        "tree": BUSH,
        "temperature": 1.0,
        "max_new_tokens": 4,
    } | wrong
    with pytest.raises(InputError) as caught:
        speculate_sampled(
            tiny_model, [3], readers["early exit"], generator=np.random.default_rng(0), **options
        )
    assert caught.value.key == key
