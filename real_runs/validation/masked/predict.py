"""How long should decoding prompts that nobody recorded take, by a setting?

Forwards come from replaying anchors of other prompts, in batches as large; what each takes, and
what a rule takes beside them, from runs on further prompts that are never scored. Leaves out
running (`bench`).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

import numpy as np
from numpy.typing import NDArray

from real_runs.decoding.masked.batch import counts, spans
from real_runs.validation.masked.settings import CanvasSetting
from real_runs.validation.predict import COVERAGE, PredictedRun
from real_runs.validation.runs import Run
from real_runs.validation.subject import UnscoredError
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.agreement import lowered
from traces.replay.confidence.anchors import Anchors
from traces.replay.confidence.decode import Pass
from traces.replay.confidence.walk import log_odds_shift, replay_policy, usable_runs, walked

Shape = tuple[int, int, int]
"""Canvases, tokens computed of each, tokens read from its cache."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PassCosts:
    """What forwards and rules take.

    Attributes:
        forward_s: seconds of a forward by its shape.
        rest_s: seconds that a rule takes beside a forward, by rule and batch.
        spread: standard deviation of log(measured / these costs) over the runs that they are fitted
            on.
    """

    forward_s: Mapping[Shape, float]
    rest_s: Mapping[tuple[str, int], float]
    spread: float

    def as_json(self) -> dict[str, object]:
        """JSON values, for reports."""
        return {
            "forward_s": [[*shape, seconds] for shape, seconds in sorted(self.forward_s.items())],
            "rest_s": [[*key, seconds] for key, seconds in sorted(self.rest_s.items())],
            "spread": self.spread,
        }

    def seconds(self, shapes: Mapping[Shape, int], rule: str, batch: int) -> tuple[float, float]:
        """Seconds of forwards, and of all else.

        Raises:
            UnscoredError: a forward or a rule that was not timed.
        """
        for shape in shapes:
            if shape not in self.forward_s:
                raise UnscoredError(
                    "was not timed: canvases, tokens computed and cached",
                    key="forward",
                    value=shape,
                )
        if (rule, batch) not in self.rest_s:
            raise UnscoredError(f"was not timed at batch {batch}", key="commit", value=rule)
        forwards = sum(count * self.forward_s[shape] for shape, count in shapes.items())
        return forwards, self.rest_s[rule, batch] * sum(shapes.values())


def fit_costs(runs: Sequence[tuple[str, int, Run]]) -> PassCosts:
    """The median forward of every shape, and what every rule takes beside them.

    Args:
        runs: rule, batch and run, in the machine's usual state.
    """
    forwards: dict[Shape, list[float]] = defaultdict(list)
    rests: dict[tuple[str, int], list[float]] = defaultdict(list)
    for rule, batch, run in runs:
        for b, n, c, seconds in run.passes:
            forwards[b, n, c].append(seconds)
        rests[rule, batch].append(run.rest_s / run.steps)
    costs = PassCosts(
        forward_s={shape: median(seconds_of_shape) for shape, seconds_of_shape in forwards.items()},
        rest_s={key: median(seconds_of_rule) for key, seconds_of_rule in rests.items()},
        spread=0.0,
    )
    logs = []
    for rule, batch, run in runs:
        shapes = Counter((b, n, c) for b, n, c, _ in run.passes)
        logs.append(math.log(run.decode_s / sum(costs.seconds(shapes, rule, batch))))
    return PassCosts(forward_s=costs.forward_s, rest_s=costs.rest_s, spread=float(np.std(logs)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Foretold:
    """What a setting is expected to do.

    Attributes:
        run: of the mean batch.
        agreement: share of positions with the token of one token a pass without a cache.
        how: what its passes rest on, as `RefineReplay.how`.
        is_beyond_anchors: it commits more a pass than any anchor.
        deviation: standard deviation of a batch's seconds over their mean.
        batches: of anchors' prompts.
    """

    run: PredictedRun
    agreement: float
    how: str
    is_beyond_anchors: bool
    deviation: float
    batches: int

    def spread_ratio(self, costs: PassCosts, batches: int) -> float:
        """Half width of the 80 % interval of measured / predicted - 1 over other `batches`."""
        variance = costs.spread**2 + self.deviation**2 * (1.0 / self.batches + 1.0 / batches)
        return math.expm1(NormalDist().inv_cdf(0.5 + COVERAGE / 2) * math.sqrt(variance))


def foretold(
    states: Anchors,
    plain: NDArray[np.int32],
    setting: CanvasSetting,
    batch: int,
    costs: PassCosts,
    *,
    prompt_tokens: int,
) -> Foretold:
    """Replay a setting on the anchors' prompts, and time it.

    Args:
        states: anchors with the setting's cache.
        plain: int32[P, L], what one token a pass without a cache writes on their prompts.
        setting: what.
        batch: canvases together; prompts that fill no batch are left out.
        costs: of forwards and rules.
        prompt_tokens: of every prompt.

    Raises:
        UnscoredError: a forward or a rule that was not timed.
        InputError: anchors that cannot answer.
    """
    policy = setting.policy
    replay = replay_policy(states, policy, interval=False)
    if policy.commit == "self_verified":
        shapes, agreement = (
            _drafted_forwards(replay.steps, policy, prompt_tokens + states.canvas_tokens),
            1.0,
        )
    else:
        shapes, tokens = _forwards(states, policy, batch, prompt_tokens)
        same: NDArray[np.float64] = (tokens == plain).mean(axis=1)
        agreement = (
            float(same.mean())
            if replay.how == "recorded"
            else lowered(same, log_odds_shift(states)).mean
        )
    timed = [costs.seconds(forwards, policy.commit, batch) for forwards in shapes]
    totals = np.array([sum(batch_seconds) for batch_seconds in timed])
    replayed = len(shapes) * batch
    run = PredictedRun(
        tokens=batch * states.canvas_tokens,
        steps=float(np.mean([sum(forwards.values()) for forwards in shapes])),
        request_steps=float(replay.steps[:replayed].sum() / len(shapes)),
        draft_s=0.0,
        verify_s=float(np.mean([batch_seconds[0] for batch_seconds in timed])),
        rest_s=float(np.mean([batch_seconds[1] for batch_seconds in timed])),
    )
    return Foretold(
        run=run,
        agreement=agreement,
        how=replay.how,
        is_beyond_anchors=replay.is_beyond_anchors,
        deviation=float(totals.std(ddof=1) / totals.mean()) if len(totals) > 1 else 0.0,
        batches=len(totals),
    )


def _forwards(
    states: Anchors, policy: RefinePolicy, batch: int, prompt_tokens: int
) -> tuple[list[Counter[Shape]], NDArray[np.int32]]:
    """Forwards of every batch of prompts by shape, and the tokens of all prompts."""
    shapes: list[Counter[Shape]] = [Counter() for _ in range(len(states.prompts) // batch)]

    def after(forward: Pass, _: NDArray[np.bool_]) -> None:
        for span, canvases in spans(policy, forward).items():
            width = counts(span, prompt_tokens, states.canvas_tokens)
            for place, together in Counter(canvas // batch for canvas in canvases).items():
                if place < len(shapes):
                    shapes[place][together, *width] += 1

    done = walked(states, policy, usable_runs(states, states.run_of(policy)), after=after)
    return shapes, done.tokens


def _drafted_forwards(
    steps: NDArray[np.int64], policy: RefinePolicy, tokens: int
) -> list[Counter[Shape]]:
    """The first forward is of one state; the others are taken to be of all drafts, though blocks
    end some early.
    """
    drafts = int(policy.at["drafts"])
    return [
        Counter({(1, tokens, 0): 1}) + Counter({(drafts, tokens, 0): int(canvas_steps) - 1})
        for canvas_steps in steps
    ]
