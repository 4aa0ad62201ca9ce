"""Decoding loops on a pretended GPU: the text of a CPU, and no more waits for the device than they
need."""

import pytest

pytest.importorskip("torch")


LOOPS = """
from real_runs.decoding.batch_speculative import per_request, speculate_batch
from real_runs.decoding.dynamic_tree import DynamicPolicy, speculate_dynamic
from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import speculate
from real_runs.decoding.tree_speculative import EarlyExitReader, by_levels, speculate_tree
from real_runs.drafters.early_exit import EarlyExit
from real_runs.drafters.layer_skip import GapLlama, LayerSkip
from real_runs.drafters.prompt_lookup import PromptLookup
from real_runs.drafters.suffix_automaton import SuffixAutomaton
from real_runs.drafters.token_recycling import TokenRecycling
from real_runs.models.bridge import Bridge
from real_runs.models.config import LlamaConfig
from real_runs.models.llama import Llama
from tests.real_runs.random_weights import random_weights
from traces.kinds.tree import Tree, chain_tree

CONFIG = LlamaConfig(vocabulary=97, width=32, layers=4, heads=4, kv_heads=2, head_dim=8, ffn_width=48, eos_ids=(0,))
PROMPT, MOST = [7, 5, 9, 7, 5], 24
TREE = Tree.from_paths([(0,), (1,), (0, 0), (0, 1), (0, 0, 0)])

def greedy():
    return Sampler(temperature=0, seed=0, request="", positions=40)

def on(place):
    model = Llama(random_weights(CONFIG, seed=3, scale=0.2), device=place)
    bridge = Bridge(exit_layer=3, weight=torch.eye(32), bias=torch.zeros(32))
    skip = LayerSkip(GapLlama(model, start=1, stop=2, bridge=None))
    chain = dict(draft_tokens=3, max_new_tokens=MOST)
    tree = dict(tree=TREE, max_new_tokens=MOST)
    alike = (model, PROMPT)
    return dict(
        lookup=lambda: speculate(*alike, PromptLookup(), greedy(), **chain),
        automaton=lambda: speculate(*alike, SuffixAutomaton(), greedy(), **chain),
        recycling=lambda: speculate_tree(*alike, TokenRecycling(97), greedy(), **tree),
        early=lambda: speculate(*alike, EarlyExit(model, bridge), greedy(), **chain),
        early_tree=lambda: speculate_tree(*alike, by_levels(EarlyExitReader(model, bridge)), greedy(), **tree),
        skip_tree=lambda: speculate_tree(*alike, by_levels(skip), greedy(), **tree),
        skip_dynamic=lambda: speculate_dynamic(*alike, skip, greedy(), policy=DynamicPolicy(), max_new_tokens=MOST),
    )
"""


def test_texts_are_those_of_a_processor(ran):
    told = ran(
        LOOPS
        + """
here, there = on("cpu"), on("cuda")
plain = generate(Llama(random_weights(CONFIG, seed=3, scale=0.2)), PROMPT, greedy(), max_new_tokens=MOST).tokens
for name in here:
    first, second = here[name](), there[name]()
    assert first == second and first.tokens == plain, name
    print(name)
batch = [PROMPT, [3, 3, 3]]
def together(place):
    model = Llama(random_weights(CONFIG, seed=3, scale=0.2), device=place)
    drafters = per_request([PromptLookup(), PromptLookup()])
    return speculate_batch(model, batch, drafters, [greedy(), greedy()], tree=chain_tree(3), max_new_tokens=[24, 24])
runs = [together(place) for place in ("cpu", "cuda")]
assert runs[0] == runs[1]
"""
    )
    assert len(told) == 7


def test_a_step_waits_for_the_device_a_stated_number_of_times(ran):
    """Ids go there and answers come back once a pass; a tree's positions go with it, and masks once
    a tree."""
    told = ran(
        LOOPS
        + """
there = on("cuda")
for name, call in there.items():
    pretend_cuda.SYNCS.clear()
    steps = len(call().emitted)
    print(name, sum(pretend_cuda.SYNCS.values()) / (steps + 1))
"""
    )
    waits = {name: float(each) for name, each in zip(told[::2], told[1::2], strict=True)}
    budget = {
        "lookup": 2.5,
        "automaton": 2.5,
        "recycling": 4.7,  # the first token and every step teach it, a wait each
        "early": 8,
        "early_tree": 11.5,
        "skip_tree": 11.5,
        "skip_dynamic": 26,
    }
    assert waits.keys() == budget.keys()
    assert {name: each for name, each in waits.items() if each > budget[name]} == {}
