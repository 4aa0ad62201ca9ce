"""Chains evaluated together take what each takes alone; so do all other configurations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.answers.chains import step_seconds
from costmodel.answers.estimate import estimate, intervals, step_cost
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import DepthRates, geometric, stated_tree
from costmodel.laws.claims import rate_claim
from costmodel.method_library import load_method
from tests.property_examples import examples
from traces.kinds.tree import Tree

PLACES = (
    ("eagle-3", "llama-3.1-8b", "h100-sxm", "vllm"),
    ("n-gram", "llama-3.1-8b", "l4", "llama.cpp"),
    ("mtp", "deepseek-v3", "h200-sxm", "sglang"),
    ("speculative-decoding", "llama-3.1-70b", "b300-sxm", "tensorrt-llm"),
    ("pearl", "llama-3.1-70b", "h100-sxm", "none"),
    ("medusa", "llama-3.1-8b", "a100-sxm-80", "transformers"),
    ("eagle-3", "qwen3-30b-a3b", "h200-sxm", "vllm", 2, 1, 4, 2),
    ("n-gram", "llama-3.1-8b", "h100-sxm", "sglang", 2, 4),
)


def setting_of(method, model, device, engine, tensor=1, stages=1, experts=1, copies=1):
    names = DeploymentNames(
        model=model,
        device=device,
        engine=engine,
        tensor_parallel=tensor,
        pipeline_parallel=stages,
        expert_parallel=experts,
        data_parallel=copies,
    )
    needs = load_method(method).needs_draft_model
    return build_setting(
        DecodingConfiguration(
            method=method, deployment=names, draft_model="llama-3.2-1b" if needs else None
        )
    )


@pytest.fixture(scope="module")
def prepared():
    return {place: setting_of(*place) for place in PLACES}


def chain(method, length, share):
    rates = DepthRates(by_depth=(0.7,), proposal_ratio=share)
    return geometric(0.0, 0) if length == 0 else rate_claim(load_method(method), rates, length)


@given(
    place=st.sampled_from(PLACES),
    lengths=st.lists(st.integers(0, 16), min_size=1, max_size=6),
    share=st.sampled_from([1.0, 0.4]),
    batch=st.lists(st.integers(1, 600), min_size=1, max_size=4),
    context=st.lists(st.integers(0, 60_000), min_size=1, max_size=3),
)
@settings(max_examples=examples(40), deadline=None)
def test_chains_together_take_what_each_takes_alone(
    prepared, place, lengths, share, batch, context
):
    method, setting = place[0], prepared[place]
    chains = [
        chain(method, length, share if load_method(method).may_propose_nothing else 1.0)
        for length in lengths
    ]
    b, c = np.array(batch, dtype=float)[:, None], np.array(context, dtype=float)[None, :]
    together = step_seconds(setting, chains, batch=b, context=c)
    alone = np.stack(
        [
            np.broadcast_to(
                step_cost(setting, a, batch=b, context=c).total_s, b.shape[:1] + c.shape[1:]
            )
            for a in chains
        ]
    )
    np.testing.assert_allclose(together, alone, rtol=1e-12)


def test_trees_stand_among_chains(prepared):
    setting = prepared[PLACES[0]]
    tree = stated_tree(DepthRates(by_depth=(0.7,)), Tree(parents=(-1, 0, 0, 1), ranks=(0, 0, 1, 0)))
    mixed = [geometric(0.0, 0), geometric(0.7, 3), tree, geometric(0.7, 1)]
    found = step_seconds(setting, mixed, batch=8, context=1024)
    assert found.shape == (4,)
    for seconds, each in zip(found, mixed, strict=True):
        assert seconds == pytest.approx(
            float(step_cost(setting, each, batch=8, context=1024).total_s), rel=1e-12
        )


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("length", [0, 3])
def test_intervals_drawn_alike_are_those_of_each_point_alone(prepared, place, length):
    setting = prepared[place]
    b, c = np.array([1.0, 7.0, 300.0]), np.array([0.0, 4096.0, 1000.0])
    a = chain(place[0], length, 1.0)
    grid = intervals(
        setting,
        estimate(setting, a, batch=b, context=c),
        batch=b,
        generator=np.random.default_rng(5),
        alike=True,
    )
    for point in range(3):
        result = estimate(setting, a, batch=b[point], context=c[point])
        one = intervals(setting, result, batch=b[point], generator=np.random.default_rng(5))
        for name in ("step_s", "tokens_per_s", "speedup"):
            ends = [end[point] for end in getattr(grid, name)]
            assert ends == pytest.approx([float(end) for end in getattr(one, name)], rel=1e-12), (
                name
            )
