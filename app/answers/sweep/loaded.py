"""What do requests see under a load, with the draft that serves it best?

The law of a load says which draft that is (`costmodel.answers.loads`); a simulation of one replica
says what its requests see. Cells of one deployment share the law's curves, the scenarios and the
tables of passes. Leaves out which cells there are (`cells`) and rows (`evaluate`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from app.answers.sweep.table import SweepCell
from costmodel.answers.fit import require_room, room
from costmodel.answers.loads import Curve
from costmodel.answers.replicas import busy_replica, curve_of, most_sharing, step_rows
from costmodel.answers.workload import Limits, Load, RequestTimes, load_of_requests
from costmodel.laws.acceptance import Acceptance
from costmodel.optimizers.allowed import Contender, drafting
from costmodel.optimizers.joint.space import PROMPTS
from costmodel.optimizers.pricing import evaluate
from costmodel.passes.ops import Mask
from hardware_profiles.errors import InfeasibleError
from simulator.engine import simulate
from simulator.loop.options import Scenario
from simulator.results.metrics import SimulationResult, distribution
from simulator.results.steady import WARM_UP_WAVES, steady_window
from simulator.scenario.arrivals import drawn_lengths
from simulator.scenario.build import Prepared, prepare
from simulator.scenario.configured import sections_of
from simulator.scenario.file import checked_scenario
from simulator.timing.cost_timer import CostModelDraft, CostModelTimer, TableSize

REQUESTS = 480  # of a simulation at a rate
LONGER = 4  # times as many, where a backlog seems to grow that the law does not expect
WAVES = 6  # requests of a user, of which those of warm-up and draining do not count
LEAST_REQUESTS = 64  # that count, where users are few
_LENGTHS = 2000  # requests that are drawn to say what lengths a law has
_BATCHES = 48  # batches of a curve
_SHARED_SIZE = TableSize(rows=1 << 12, requests=256, context_tokens=1 << 12, query_tokens=8)


@dataclass(frozen=True, kw_only=True, slots=True)
class UnderLoad:
    """What serves a load best.

    Attributes:
        acceptance: of its draft.
        numbers: columns of a row.
    """

    acceptance: Acceptance
    numbers: Mapping[str, Any]


class _Shape(NamedTuple):
    """What the law says of a draft: mean times, of a request in all too, and the most requests that
    are finished per second.
    """

    acceptance: Acceptance
    ttft_s: float
    tpot_s: float
    e2e_s: float
    most_per_s: float


class Loads:
    """Loads of one model, device, engine and drafter.

    Args:
        contender: what decodes, no drafting among it.
        limits: on the times of every request.
        seed: of arrivals, lengths and places in recordings.
    """

    def __init__(self, contender: Contender, limits: Limits, seed: int) -> None:
        self.contender, self.limits, self.seed = contender, limits, seed
        self._curves: dict[tuple[str, str], list[tuple[Sequence[Acceptance], Curve]]] = {}
        self._scenarios: dict[tuple[int, str, str], Prepared] = {}
        self._timers: dict[bool, tuple[CostModelTimer, CostModelDraft]] = {}

    def served(self, cell: SweepCell) -> UnderLoad:
        """The best draft under the load of a cell, and what its requests see.

        Raises:
            InputError: nothing that can be simulated.
            InfeasibleError: memory holds no request.
        """
        load = _load(cell.prompt_tokens or "", cell.output_tokens or "")
        shapes = self._shapes(cell, load)
        best = self._best(shapes)
        carried = bool(np.isfinite(best.e2e_s))
        seen = self._closed(cell, best) if cell.users is not None else self._open(cell, best)
        if seen["ttft_s"] is None:
            raise InfeasibleError("memory: a request does not fit the cache of a replica")
        speedup = shapes[0].e2e_s / best.e2e_s if carried else np.inf
        numbers = seen | {
            "speedup": float(speedup) if np.isfinite(speedup) else None,
            "sustained": carried and seen["sustained"],
        }
        return UnderLoad(acceptance=best.acceptance, numbers=numbers)

    def _shapes(self, cell: SweepCell, load: Load) -> list[_Shape]:
        """Every draft under a cell's load, by the law; no drafting first."""
        key = (cell.prompt_tokens or "", cell.output_tokens or "")
        if key not in self._curves:
            self._curves[key] = list(_curves(self.contender, load))
        later, shapes = load.output_tokens - 1.0, list[_Shape]()
        for drafts, curve in self._curves[key]:
            places = curve.batch[-1:]
            most = curve.highest_per_s(places)[..., 0]
            if cell.users is not None:
                there = np.minimum(float(cell.users), places)
                rate, tpot = (
                    np.array([np.interp(there, curve.batch, row)[0] for row in values])
                    for values in (curve.requests_per_s, curve.tpot_s)
                )
                whole = cell.users / rate
                ttft = np.maximum(whole - later * tpot, 0.0)
            else:
                offered = np.full((len(drafts), 1), cell.rate_per_s)
                seen = curve.under(offered, places)
                ttft, tpot = seen.ttft_s[..., 0], seen.tpot_s[..., 0]
                whole = ttft + later * tpot
            columns = (ttft.tolist(), tpot.tolist(), whole.tolist(), most.tolist())
            shapes += [_Shape(*row) for row in zip(drafts, *columns, strict=True)]
        return shapes

    def _best(self, shapes: Sequence[_Shape]) -> _Shape:
        """The draft whose requests are over first among those that keep the limits; where none
        does, the one that exceeds them least; where none carries the load, the one that carries most.
        """
        if not any(np.isfinite(shape.e2e_s) for shape in shapes):
            return max(shapes, key=lambda shape: shape.most_per_s)

        def excess(shape: _Shape) -> float:
            times = RequestTimes(ttft_s=shape.ttft_s, tpot_s=shape.tpot_s, e2e_s=shape.e2e_s)
            return max(1.0, float(self.limits.excess(times)))

        return min(shapes, key=lambda shape: (excess(shape), shape.e2e_s))

    def _open(self, cell: SweepCell, best: _Shape) -> dict[str, Any]:
        """What requests see that arrive at a cell's rate, once a replica has warmed up."""
        prepared, count = self._prepared(cell, best.acceptance), REQUESTS
        carried = np.isfinite(best.e2e_s)
        while True:
            result = self._simulated(prepared, rate_per_s=cell.rate_per_s, count=count)
            window = steady_window(result, self.limits)
            if not (carried and window.is_growing) or count >= LONGER * REQUESTS:
                break
            count *= 2
        steady = window.counts(result)
        rate = result.request.size / result.clock_s  # of a replica that is busy to the end
        if carried and window.tokens_per_s is not None:
            rate = window.tokens_per_s / float(result.output_tokens.mean())
        return self._seen(result, steady, rate) | {"sustained": not window.is_growing}

    def _closed(self, cell: SweepCell, best: _Shape) -> dict[str, Any]:
        """What so many users see after their first requests; whoever is answered asks again."""
        prepared, users = self._prepared(cell, best.acceptance), cell.users or 1
        result = self._simulated(
            prepared.of_users(users),
            count=max(WAVES * users, (WARM_UP_WAVES + 1) * users + LEAST_REQUESTS),
        )
        window = steady_window(result, self.limits)
        rate = window.requests_per_s or 0.0
        return self._seen(result, window.counts(result), rate) | {"sustained": True}

    def _seen(self, result: SimulationResult, steady: Mask, rate_per_s: float) -> dict[str, Any]:
        """Times of the steady requests, and rates where so many of them end a second."""
        counted = result.finished & steady
        times = {
            "ttft": distribution(result.ttft_s[counted]),
            "tpot": distribution(result.tpot_s[counted]),
            "e2e": distribution(result.e2e_s[counted]),
        }
        good = result.within(self.limits)[steady].mean()
        return {
            **{f"{name}_s": values["mean"] for name, values in times.items()},
            **{f"{name}_p99_s": values["p99"] for name, values in times.items()},
            "tokens_per_s": rate_per_s * float(result.output_tokens.mean()),
            "good_ratio": float(good),
            "goodput_per_s": rate_per_s * float(good),
            "requests": int(result.request.size),
        }

    def _simulated(self, prepared: Prepared, **load: Any) -> SimulationResult:
        """One replica under a load."""
        return simulate(self._timed(prepared.scenario(self.seed, **load), prepared))

    def _prepared(self, cell: SweepCell, a: Acceptance) -> Prepared:
        """The scenario of a draft with requests of a cell's lengths."""
        lengths = (cell.prompt_tokens or "", cell.output_tokens or "")
        key = (id(a), *lengths)  # the contender keeps its candidates
        if key not in self._scenarios:
            requests = {
                "count": REQUESTS,
                "rate_per_s": 1.0,
                "prompt_tokens": lengths[0],
                "output_tokens": lengths[1],
            }
            sections = sections_of(drafting(self.contender.configuration, a))
            self._scenarios[key] = prepare(checked_scenario(sections | {"requests": requests}))
        return self._scenarios[key]

    def _timed(self, scenario: Scenario, prepared: Prepared) -> Scenario:
        """A scenario whose passes are timed by tables that other cells share."""
        assert prepared.setting is not None
        drafts = scenario.speculation is not None
        if drafts not in self._timers:
            setting = prepared.setting
            self._timers[drafts] = (
                CostModelTimer(setting, least=_SHARED_SIZE),
                CostModelDraft(setting, least=_SHARED_SIZE),
            )
        timer, draft = self._timers[drafts]
        speculation = scenario.speculation
        if speculation is not None and isinstance(speculation.draft, CostModelDraft):
            speculation = replace(speculation, draft=draft)
        return replace(scenario, timer=timer, speculation=speculation, series=False)


@lru_cache(1024)
def _load(prompt_tokens: str, output_tokens: str) -> Load:
    """A load of requests whose lengths follow laws; its rate does not matter."""
    drawn = drawn_lengths(prompt_tokens, output_tokens, _LENGTHS, np.random.default_rng(0))
    return load_of_requests(drawn, requests_per_s=1.0, prompts=PROMPTS)


def _curves(contender: Contender, load: Load) -> Iterator[tuple[Sequence[Acceptance], Curve]]:
    """What a replica does at every batch, without drafting and with every draft that memory holds.

    Raises:
        InfeasibleError: it holds no request.
    """
    setting, plain = contender.setting, contender.candidates[0]
    spaces = [room(setting, a, context=load.longest_context) for a in contender.candidates]
    require_room(setting, spaces[0])
    yield [plain], _curve(contender, [plain], load, spaces[0].largest_batch)
    drafts = [
        (a, space.largest_batch)
        for a, space in zip(contender.candidates, spaces, strict=True)
        if a is not plain and space.largest_batch
    ]
    if drafts:
        shapes, largest = zip(*drafts, strict=True)
        yield shapes, _curve(contender, shapes, load, min(largest))


def _curve(contender: Contender, drafts: Sequence[Acceptance], load: Load, largest: int) -> Curve:
    """A replica with drafts that are alike; arrays of shape [drafts, batches]."""
    setting, scheduler = contender.setting, contender.setting.engine.scheduling
    budget = float(scheduler.token_budget) if scheduler.chunked_prefill else np.inf
    rows, tokens = (
        np.array(values)[:, None]
        for values in (
            [step_rows(setting, a, load.decode_context) for a in drafts],
            [a.tokens_per_step for a in drafts],
        )
    )
    room_for = most_sharing(load, rows, budget, load.output_tokens / tokens)
    most = max(int(min(largest, scheduler.max_requests, room_for.min())), 1)
    batch = np.unique(np.geomspace(1.0, most, _BATCHES).round())
    own = replace(contender, candidates=drafts)
    step_s = evaluate(own, batch=batch, context=load.decode_context).step_s
    prompts, speeds = busy_replica(
        setting,
        drafts[0],
        load,
        batch=batch,
        step_s=step_s,
        rows=rows,
        tokens_per_step=tokens,
        token_budget=budget,
    )
    return curve_of(setting, batch, step_s, prompts, speeds)
