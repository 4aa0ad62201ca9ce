"""Every field that an entry sets is executed: change it, and a price, a number of tokens or a
refusal moves."""

from dataclasses import fields, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

import costmodel.method_library as library
from costmodel.answers import settings
from costmodel.answers.estimate import estimate, footprint_of, prefill_s
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.engine_library import engine_names, load_engine
from costmodel.laws.acceptance import accepted_by, law_for
from costmodel.laws.claims import rate_claim, tokens_claim
from costmodel.laws.drafting import dynamic_tree, stopped_chain
from costmodel.laws.own_pace import own_pace
from costmodel.method import LABELS
from costmodel.method_library import load_method, priced_alike
from hardware_profiles.errors import RooftreeError
from simulator.engine import simulate
from simulator.scenario import build, speculated
from simulator.scenario.file import checked_scenario
from tests.costmodel.changed_records import fields_that_move_nothing
from traces.kinds.tree import Tree
from traces.library import read_trace

pytestmark = pytest.mark.heavy

TREE = Tree.from_paths([(0,), (1,), (2,), (0, 0), (0, 1), (0, 0, 0)])
RECORDINGS = Path("traces/recorded/level-3")
POINTS = {"batch": np.array([1.0, 24.0]), "context": np.array([700.0, 9000.0])}


@cache
def recording(name):
    return read_trace(RECORDINGS / f"smollm2-135m--{name}.parquet")


@cache
def without_drafts(name):
    return replace(recording(name), drafted=None)


def answer_or_refusal(question):
    """What a question is answered, or why it is refused; whatever else is raised is a defect."""
    try:
        return question()
    except RooftreeError as error:
        return f"{type(error).__name__}: {error}"


@pytest.fixture
def ask(monkeypatch):
    """Puts a question about a record, which every lookup of its slug finds meanwhile."""
    current = []

    def known(slug):
        return current[-1] if slug == current[-1].slug else load_method(slug)

    for module in (settings, library, speculated):
        monkeypatch.setattr(module, "load_method", known)

    def answer(method, question):
        current[:] = [method]
        return answer_or_refusal(question)

    return answer


def setting(method, target="llama-3.1-8b", **names):
    draft = {"llama-3.1-8b": "llama-3.2-1b", "qwen3-30b-a3b": "qwen3-0.6b"}[target]
    return settings.build_setting(
        DecodingConfiguration(
            method=method.slug,
            draft_model=draft if method.needs_draft_model else None,
            deployment=DeploymentNames(model=target, device="h200-sxm", engine="vllm", **names),
        )
    )


def numbers(found, accepted):
    whole = estimate(found, accepted, **POINTS)
    held = footprint_of(found, accepted, batch=24, context=9000).total_bytes
    return [accepted.tokens_per_step, *whole.step_s.tolist(), *whole.speedup.tolist(), float(held)]


def prices(method):
    """Step, speedup and memory of drafts of several shapes, on a dense and a sparse target, alone
    and shared."""
    shapes = (
        lambda: rate_claim(method, 0.7, 5),
        lambda: tokens_claim(method, 1.5),
        lambda: own_pace(method),
        lambda: rate_claim(method, 0.0, 0),
        lambda: rate_claim(method, 0.7, 12),
        lambda: tokens_claim(method, 1.5, TREE),
    )
    for target, tp in (("llama-3.1-8b", 2), ("qwen3-30b-a3b", 1)):
        found = cache(partial(setting, method, target, tensor_parallel=tp))
        yield f"prompt on {target}", partial(prompt, found)
        for index, shape in enumerate(shapes):
            yield f"shape {index} on {target}", partial(priced, found, shape)


def prompt(found):
    return float(prefill_s(found(), prompt_tokens=3000.0))


def priced(found, shape):
    return numbers(found(), shape())


def transformed(method):
    """The entry's changes to the target under another method, and with weights of another
    format."""
    if method.target:
        other = load_method("speculative-decoding")
        yield (
            "below another",
            lambda: numbers(setting(other, transforms=(method.slug,)), rate_claim(other, 0.7, 5)),
        )
        yield (
            "another format",
            lambda: numbers(setting(method, dtype="fp8"), rate_claim(method, 0.0, 0)),
        )


def laws(method):
    """Tokens per step by replay of recordings, under the entry's verifier, shape and stop rule."""
    for name in ("layer-skip--t1", "draft-model--t0.8", "feature-head--greedy"):
        for law in (verified, stopped, grown):
            yield f"{law.__name__} on {name}", partial(law, method, recording(name))


def verified(method, trace):
    law = law_for(trace, method.verify.rule, (3,), at=method.verify.at)
    return accepted_by(trace, law, 3, None).tokens_per_step, law.lossy


def stopped(method, trace):
    return stopped_chain(trace, method.shape.nodes or 8, method.stop, None).tokens_per_step


def grown(method, trace):
    s = method.shape
    small = replace(s, nodes=min(s.nodes, 12), beam=min(s.beam, 12), depth=min(s.depth, 6))
    return dynamic_tree(trace, small, None, stop=method.stop).tokens_per_step


def doors(method):
    """What follows from an entry without a number: exports, match rates, trees, exactness."""
    yield (
        "kind",
        lambda: (
            method.exactness,
            method.drafts_trees,
            method.exits_early,
            method.needs_trained_weights,
        ),
    )
    yield "engines", partial(exported, method)
    yield "match rate", partial(matched, method)


def exported(method):
    options = {engine: load_engine(engine).options for engine in engine_names()}
    names = {engine: method.engines.get(engine) for engine in options}
    return [
        names[engine] in each.drafting if each is not None else names[engine]
        for engine, each in options.items()
    ]


def matched(method):
    return settings.with_match_rate(
        without_drafts("feature-head--greedy"), method.slug, 0.5
    ).match_rate


def simulations(method):
    """Clock and counters of a small run in which requests share steps as the entry says."""
    if method.draft and method.refine is None:
        for name in ("draft-model--t0.8", "prompt-lookup--greedy"):
            yield f"simulated on {name}", partial(simulated, method, name)


def simulated(method, name):
    speculation = {
        "trace": str(RECORDINGS / f"smollm2-135m--{name}.parquet"),
        "draft_tokens": 6,
        "method": method.slug,
    }
    if method.needs_draft_model:
        speculation["draft"] = "llama-3.2-1b"
    requests = {
        "count": 6,
        "prompt_tokens": "uniform:50:2000",
        "output_tokens": 30,
        "arrivals": "poisson",
    }
    written = {
        "requests": requests | {"rate_per_s": 1000},
        "deployment": {"model": "llama-3.1-8b", "device": "h100-sxm"},
        "speculation": speculation,
    }
    result = simulate(build.prepare(checked_scenario(written)).scenario(1))
    return result.clock_s, sorted(result.counters.items())


def questions(method):
    """All that is asked about a record, by name, the cheap ones first."""
    return dict(
        chain(doors(method), prices(method), transformed(method), laws(method), simulations(method))
    )


@pytest.mark.parametrize("slug", sorted(set(priced_alike().values())))
def test_every_field_that_an_entry_sets_moves_something(slug, ask):
    method = load_method(slug)
    still = fields_that_move_nothing(method, questions, ask, prose={*LABELS, "name"})
    assert not still, f"these move nothing: {', '.join(still)}"


def test_labels_are_fields():
    assert {each.name for each in fields(load_method("eagle-3"))} >= set(LABELS)
