"""Is all that a method states executed, and are its prices those of a way of decoding?

The same checks hold for every entry of the catalogue and for a method of the reader's own. Its
fields are changed one by one, and a price, a number of tokens per step or a refusal must move.
Leaves out whether its fields go together (`costmodel.method_rules`).
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from app.answers.methods.changed_records import Ask, moving_questions
from costmodel.answers import settings
from costmodel.answers.estimate import Setting, estimate, footprint_of, prefill_s
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.engine_library import engine_names, load_engine
from costmodel.laws.acceptance import Acceptance, DepthRates, accepted_by, geometric, law_for
from costmodel.laws.claims import rate_claim, tokens_claim
from costmodel.laws.drafting import dynamic_tree, stopped_chain
from costmodel.laws.own_pace import own_pace
from costmodel.method import LABELS, Method
from costmodel.method_library import load_method, standing_in
from costmodel.optimizers.candidates.block_trees import block_tree
from hardware_profiles.errors import RooftreeError
from simulator.engine import simulate
from simulator.scenario import build
from simulator.scenario.file import checked_scenario
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree
from traces.library import read_trace, trace_file

_DRAFTS = {"llama-3.1-8b": "llama-3.2-1b", "qwen3-30b-a3b": "qwen3-0.6b"}
_TREE = Tree.from_paths([(0,), (1,), (2,), (0, 0), (0, 1), (0, 0, 0)])
_BATCHES, _CONTEXTS = np.array([1.0, 24.0]), np.array([700.0, 9000.0])
_RECORDED = ("layer-skip--t1", "draft-model--t0.8", "feature-head--greedy")
_SIMULATED = ("draft-model--t0.8", "prompt-lookup--greedy")
_K = 4
"""Draft tokens of the checks of prices."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PriceCheck:
    """One thing that must be true of a method's prices.

    Args:
        rule: what it is.
        speedup: over plain decoding, as predicted.
        least: it must be greater.
        most: it must not be greater.
    """

    rule: str
    speedup: float
    least: float
    most: float

    @property
    def holds(self) -> bool:
        """Whether it is true."""
        return self.least < self.speedup <= self.most


def price_checks(method: Method) -> Iterator[PriceCheck]:
    """What must be true of a method's prices, at batch 1 on an H100.

    Raises:
        InputError: it cannot be priced.
    """
    with standing_in(method):
        setting = _setting(method, device="h100-sxm")

        def checked(rule: str, accepted: Acceptance, least: float, most: float) -> PriceCheck:
            speedup = float(estimate(setting, accepted, batch=1, context=1024).speedup)
            return PriceCheck(rule=rule, speedup=speedup, least=least, most=most)

        near = 1e-6
        plain = geometric(0.0, 0)
        yield checked("without drafts it is plain decoding", plain, 1.0 - near, 1.0 + near)
        if method.has_own_pace:
            yield checked("its own pace is a speed", own_pace(method), 0.01, 100.0)
        if method.drafts:
            all_stay, none_stays = geometric(1.0, _K), geometric(0.0, _K)
            yield checked(f"{_K} drafts that all stay gain", all_stay, 1.0, _K + 1.0)
            slower = math.nextafter(1.0, 0.0)
            yield checked(f"{_K} drafts of which none stays cost", none_stays, 0.0, slower)


def moved_fields(method: Method) -> dict[str, str | None]:
    """By field that a method sets: what moves when it changes; None where nothing does."""
    return moving_questions(method, _questions, _answer, prose={*LABELS, "name"})


def _answer(method: Method, question: Ask) -> Any:
    """What a question about a method is answered, or why it is refused."""
    with standing_in(method):
        try:
            return question()
        except RooftreeError as error:
            return f"{type(error).__name__}: {error}"


def _questions(method: Method) -> Mapping[str, Ask]:
    """All that is asked about a method, by name, the cheap ones first."""
    return dict(
        chain(
            _doors(method),
            _prices(method),
            _launched(method),
            _transformed(method),
            _laws(method),
            _simulations(method),
        )
    )


@cache
def _recording(name: str) -> AcceptanceTrace:
    trace: AcceptanceTrace = read_trace(_recording_file(name))
    return trace


def _recording_file(name: str) -> Path:
    return trace_file(f"level-3/smollm2-135m--{name}")


@cache
def _without_drafts(name: str) -> AcceptanceTrace:
    return replace(_recording(name), drafted=None)


def _setting(
    method: Method,
    target: str = "llama-3.1-8b",
    *,
    device: str = "h200-sxm",
    engine: str = "vllm",
    **names: Any,
) -> Setting:
    return settings.build_setting(
        DecodingConfiguration(
            method=method.slug,
            draft_model=_DRAFTS[target] if method.needs_draft_model else None,
            deployment=DeploymentNames(model=target, device=device, engine=engine, **names),
        )
    )


def _numbers(setting: Setting, accepted: Acceptance) -> list[float]:
    whole = estimate(setting, accepted, batch=_BATCHES, context=_CONTEXTS)
    held = footprint_of(setting, accepted, batch=24, context=9000).total_bytes
    return [accepted.tokens_per_step, *whole.step_s.tolist(), *whole.speedup.tolist(), float(held)]


def _prices(method: Method) -> Iterator[tuple[str, Ask]]:
    """Step, speedup and memory of drafts of several shapes, on a dense and a sparse target, alone
    and shared.
    """
    shapes: Mapping[str, Callable[[], Acceptance]] = {
        "step of 5 drafts": lambda: rate_claim(method, 0.7, 5),
        "step of its own shape": lambda: tokens_claim(method, 1.5),
        "step at its own pace": lambda: own_pace(method),
        "plain step": lambda: rate_claim(method, 0.0, 0),
        "step of 12 drafts": lambda: rate_claim(method, 0.7, 12),
        "step of a tree": lambda: tokens_claim(method, 1.5, _TREE),
    }
    for target, tp in (("llama-3.1-8b", 2), ("qwen3-30b-a3b", 1)):
        setting = cache(partial(_setting, method, target, tensor_parallel=tp))
        yield f"prompt on {target}", partial(_prompt, setting)
        for name, shape in shapes.items():
            yield f"{name} on {target}", partial(_priced, setting, shape)


def _launched(method: Method) -> Iterator[tuple[str, Ask]]:
    """The same of passes over masked blocks that the host launches one operation after another."""
    if method.refine is not None:
        setting = cache(partial(_setting, method, engine="transformers"))
        yield "step launched one by one", partial(_priced, setting, partial(own_pace, method))


def _prompt(setting: Callable[[], Setting]) -> float:
    return float(prefill_s(setting(), prompt_tokens=3000.0))


def _priced(setting: Callable[[], Setting], shape: Callable[[], Acceptance]) -> list[float]:
    return _numbers(setting(), shape())


def _transformed(method: Method) -> Iterator[tuple[str, Ask]]:
    """The entry's changes to the target under another method, and with weights of another
    format.
    """
    if method.target:
        other = load_method("speculative-decoding")
        yield (
            "below another",
            lambda: _numbers(_setting(other, transforms=(method.slug,)), rate_claim(other, 0.7, 5)),
        )
        yield (
            "another format",
            lambda: _numbers(_setting(method, dtype="fp8"), rate_claim(method, 0.0, 0)),
        )


def _laws(method: Method) -> Iterator[tuple[str, Ask]]:
    """Tokens per step by replay of recordings, under the entry's verifier, shape and stop rule."""
    laws = {"tokens kept": _verified, "draft lengths": _stopped, "trees grown": _grown}
    if method.drafts_blocks and method.shape.kind == "dynamic_tree":
        yield "trees at stated rates", partial(_of_rates, method)
    for name in _RECORDED:
        for word, law in laws.items():
            yield f"{word} on {name}", partial(law, method, name)


def _verified(method: Method, name: str) -> tuple[float, bool]:
    trace = _recording(name)
    law = law_for(trace, method.verify.rule, (3,), at=method.verify.at)
    return accepted_by(trace, law, 3, None).tokens_per_step, law.lossy


def _stopped(method: Method, name: str) -> float:
    nodes = method.shape.nodes or 8
    return stopped_chain(_recording(name), nodes, method.stop, None).tokens_per_step


def _grown(method: Method, name: str) -> float:
    s = method.shape
    small = replace(s, nodes=min(s.nodes, 12), beam=min(s.beam, 12), depth=min(s.depth, 6))
    return dynamic_tree(_recording(name), small, None, stop=method.stop).tokens_per_step


def _of_rates(method: Method) -> list[Any]:
    """Trees of a block drafter at stated rates."""
    return [
        block_tree(method, DepthRates(by_depth=(rate,)), method.shape).tokens_per_step
        for rate in (0.5, 0.9)
    ]


def _doors(method: Method) -> Iterator[tuple[str, Ask]]:
    """What follows from an entry without a number: exports, match rates, trees, exactness."""
    yield (
        "kind of drafter and text",
        lambda: (
            method.exactness,
            method.drafts_trees,
            method.exits_early,
            method.needs_trained_weights,
        ),
    )
    yield "engines", partial(_exported, method)
    yield "match rate", partial(_matched, method)


def _exported(method: Method) -> list[Any]:
    options = {engine: load_engine(engine).options for engine in engine_names()}
    names = {engine: method.engines.get(engine) for engine in options}
    return [
        names[engine] if record is None else names[engine] in record.drafting
        for engine, record in options.items()
    ]


def _matched(method: Method) -> float | None:
    recorded = _without_drafts("feature-head--greedy")
    return settings.with_match_rate(recorded, method.slug, 0.5).match_rate


def _simulations(method: Method) -> Iterator[tuple[str, Ask]]:
    """Clock and counters of a small run in which requests share steps as the entry says."""
    if method.draft and method.refine is None:
        for name in _SIMULATED:
            yield f"simulated on {name}", partial(_simulated, method, name)


def _simulated(method: Method, name: str) -> tuple[float, list[tuple[str, Any]]]:
    speculation = {
        "trace": str(_recording_file(name)),
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
