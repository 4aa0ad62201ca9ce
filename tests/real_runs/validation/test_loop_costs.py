"""Loop costs that made the runs are found again, and what is predicted then equals what was run."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("scipy")

from costmodel.architectures.library import load_model
from costmodel.passes.deployment import Deployment
from costmodel.passes.precision import Precision
from hardware_profiles.loader import load_device
from real_runs.validation.configurations import Configuration, chain, static_tree
from real_runs.validation.loop_costs import Example, as_json, fit_costs
from real_runs.validation.predict import (
    DraftLayers,
    LoopCosts,
    draft_network_s,
    loop_of,
    predicted_run,
    verify_s,
)
from real_runs.validation.runs import Run
from real_runs.validation.walk import Walk

LAYERS = DraftLayers(exit_layer=10, skipped=8)
TRUE = LoopCosts(
    verify={"plain": (0.1, 0.0), "chain": (0.2, 0.05), "tree": (0.3, 0.0), "batch": (0.4, 0.02)},
    rest={"plain": (2e-4, 0.0), "chain": (5e-4, 1e-5), "tree": (8e-4, 2e-5), "batch": (1e-3, 3e-5)},
    draft={
        "early-exit chain": (1.3, 1e-4, 0.0),
        "prompt-lookup chain": (0.0, 3e-5, 0.0),
        "early-exit tree": (1.1, 0.0, 2e-5),
        "early-exit batch": (0.9, 0.0, 0.0),
        "layer-skip chain": (1.2, 0.0, 0.0),
    },
)


@pytest.fixture(scope="module")
def deployment():
    return Deployment(
        architecture=load_model("smollm2-135m"),
        device=load_device("cpu-generic"),
        precision=Precision(weights="fp32", activations="fp32", kv="fp32"),
    )


def walked(configuration, batch, context, steps):
    n = np.full(steps, 1 + configuration.draft_tokens)
    b = np.full(steps, batch)
    return Walk(
        requests=b,
        query_tokens=n,
        context=context + 2 * np.arange(steps),
        drafted=b * configuration.draft_tokens,
        drafting=b * min(configuration.draft_tokens, 1),
        unread=np.full(steps, 2),
        tokens=2 * steps * batch,
    )


def example(deployment, configuration, batch, context, *, steps=12, noise=0.0):
    walk = walked(configuration, batch, context, steps)
    made = predicted_run(deployment, LAYERS, TRUE, configuration, walk, batch)
    offset, slope = TRUE.verify[loop_of(configuration, batch)]
    seconds = (
        verify_s(deployment, walk)
        * np.exp(offset + slope * np.log2(walk.query_tokens))
        * (1 + noise)
    )
    run = Run(
        cell="c",
        configuration=configuration.name,
        round=0,
        prompts=("a",),
        tokens=walk.tokens,
        steps=steps,
        request_steps=steps * batch,
        drafted_tokens=0,
        decode_s=made.decode_s + noise * made.verify_s,
        cpu_s=1.0,
        draft_s=made.draft_s,
        verify_s=float(seconds.sum()),
        output_sha256="",
        passes=tuple(
            (batch, int(n), int(c), float(s))
            for n, c, s in zip(walk.query_tokens, walk.context, seconds, strict=True)
        ),
    )
    return Example(configuration=configuration, batch=batch, context=context, steps=walk, run=run)


FITTED = [
    Configuration(),
    chain("early-exit", 3),
    chain("early-exit", 7),
    chain("prompt-lookup", 3),
    static_tree("early-exit", 7),
    static_tree("early-exit", 13),
    chain("layer-skip", 3),
]


def test_the_costs_that_made_the_runs_are_found_again(deployment):
    examples = [example(deployment, each, 1, context) for each in FITTED for context in (256, 704)]
    examples += [
        example(deployment, chain("early-exit", k), 4, c) for k in (3, 7) for c in (256, 704)
    ]
    found = fit_costs(deployment, LAYERS, examples)
    assert found.verify["plain"][0] == pytest.approx(0.1, abs=0.01)
    assert found.spread_ratio < 0.03
    for each in (chain("early-exit", 5), chain("prompt-lookup", 5), static_tree("early-exit", 9)):
        walk = walked(each, 1, 512, 9)
        truth = predicted_run(deployment, LAYERS, TRUE, each, walk, 1)
        said = predicted_run(deployment, LAYERS, found, each, walk, 1)
        assert said.decode_s == pytest.approx(truth.decode_s, rel=0.03)
        assert said.draft_s == pytest.approx(truth.draft_s, rel=0.05, abs=1e-5)
    assert set(as_json(found)) == {"verify", "rest", "draft", "spread_ratio"}


def test_what_another_context_would_have_missed_widens_the_interval(deployment):
    steady = [example(deployment, each, 1, c) for each in FITTED for c in (256, 704)]
    shaken = [
        example(deployment, each, 1, c, noise=0.2 if c == 704 else 0.0)
        for each in FITTED
        for c in (256, 704)
    ]
    assert (
        fit_costs(deployment, LAYERS, shaken).spread_ratio
        > 5 * fit_costs(deployment, LAYERS, steady).spread_ratio
    )


def test_a_drafter_on_the_host_runs_no_network_and_an_exit_runs_a_pass_per_level(deployment):
    walk = walked(chain("early-exit", 4), 1, 100, 3)
    assert not draft_network_s(deployment, LAYERS, chain("prompt-lookup", 4), walk).any()
    one, four = (draft_network_s(deployment, LAYERS, chain("early-exit", k), walk) for k in (1, 4))
    assert four == pytest.approx(4 * one, rel=0.01)
    shallow = draft_network_s(
        deployment, DraftLayers(exit_layer=5, skipped=8), chain("early-exit", 4), walk
    )
    assert (shallow < four).all()
    less = draft_network_s(
        deployment, DraftLayers(exit_layer=10, skipped=20), chain("layer-skip", 4), walk
    )
    assert (less < draft_network_s(deployment, LAYERS, chain("layer-skip", 4), walk)).all()
