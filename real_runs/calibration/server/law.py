"""What does a step of this engine cost per step, per request and per token, in numbers that a
reader can hold?

A sum of terms that are never negative, fitted to relative errors, a second time without steps that
stand out (other work held up most rounds of them): for reports and for judging a machine.
Predictions take the device profile and the measured passes. Leaves out everything that is no such
sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls  # type: ignore[import-untyped]

from costmodel.passes.measured import PROMPT
from costmodel.passes.ops import Array
from hardware_profiles.errors import InputError
from traces.storage.kernels import KernelRow

_STANDS_OUT = 6.0  # errors of so many medians are another thing's
_LEAST_ERROR = 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class StepLaw:
    """step = step_s + b·request_s + b·n·token_s + b·c·cached_s + b·n·c·pair_s.

    b requests of n query tokens each over c cached tokens. All in seconds, none below 0.

    Attributes:
        step_s: every step, whatever it serves: the weights' traffic above all.
        request_s: every request that decodes.
        token_s: every query token.
        cached_s: every cached token of a request.
        pair_s: every query token and cached token.
        prompt_token_s: every token of a prompt, over the longest prompts without anything cached;
            0: none was seen.
        error_ratio: median of |law / measured - 1| over the steps.
        steps: rows that were fitted.
    """

    step_s: float
    request_s: float
    token_s: float
    cached_s: float
    pair_s: float
    prompt_token_s: float
    error_ratio: float
    steps: int

    def seconds(self, requests: float, query_tokens: float, context: float) -> float:
        """A step's time."""
        per_row = (
            self.request_s
            + query_tokens * self.token_s
            + context * (self.cached_s + query_tokens * self.pair_s)
        )
        return self.step_s + requests * per_row

    def bytes_per_s(self, weight_bytes: float) -> float:
        """Rate at which one token's step reads the weights, were that all it did."""
        return weight_bytes / self.seconds(1, 1, 0)


def step_law(rows: Sequence[KernelRow]) -> StepLaw:
    """The law of a server's steps.

    Args:
        rows: steps and prompts of one model.

    Raises:
        InputError: no steps were measured.
    """
    steps = [row for row in rows if row.operation == "step" and row.mask != PROMPT]
    if not steps:
        raise InputError("no steps were measured; raise the budget", key="budget")
    b, n, c, seconds = (
        np.array([float(getattr(row, name)) for row in steps])
        for name in ("requests", "query_tokens", "context", "median_s")
    )
    columns = np.stack([np.ones_like(b), b, b * n, b * c, b * n * c], axis=1) / seconds[:, None]
    parts, error = _fitted(columns, columns)
    usual = error <= max(_STANDS_OUT * float(np.median(error)), _LEAST_ERROR)
    parts, error = _fitted(columns[usual], columns)
    prompts = [row for row in rows if row.mask == PROMPT and row.context == 0]
    longest = max(prompts, key=lambda row: row.query_tokens, default=None)
    return StepLaw(
        **dict(
            zip(
                ("step_s", "request_s", "token_s", "cached_s", "pair_s"),
                parts.tolist(),
                strict=True,
            )
        ),
        prompt_token_s=longest.median_s / longest.query_tokens if longest else 0.0,
        error_ratio=float(np.median(error)),
        steps=len(steps),
    )


def _fitted(fitted: Array, judged: Array) -> tuple[Array, Array]:
    """Terms that sum to 1 in every row, none below 0, and the errors of rows to judge them by."""
    scale = np.maximum(fitted.max(axis=0), 1e-300)
    parts = nnls(fitted / scale, np.ones(len(fitted)))[0] / scale
    return parts, np.abs(judged @ parts - 1.0)
