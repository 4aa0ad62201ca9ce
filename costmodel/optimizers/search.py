"""Which configuration is fastest at each batch and context, and which schedule of draft lengths follows?

Evaluates every candidate of every method on the whole grid, drops what does not fit memory or misses a
latency limit, and ranks the rest by tokens per second. Leaves out traffic: batches are steady (see the
simulator).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.acceptance import Acceptance
from costmodel.estimate import Estimate, Intervals, Setting, estimate, intervals, needed_bytes, prefill_s
from costmodel.memory import USABLE_RATIO
from costmodel.ops import Array, Mask
from costmodel.optimizers.schedule import Schedule, batch_schedule
from hardware_profiles.errors import InfeasibleError
from hardware_profiles.units import GIB, MILLI


@dataclass(frozen=True, kw_only=True, slots=True)
class Contender:
    """A method in a setting, with the configurations of it to compare.

    Args:
        method: slug.
        setting: target, device, drafter and engine.
        candidates: configurations; the first is no speculation.
        trace: index of the trace that they were measured on.
    """

    method: str
    setting: Setting
    candidates: Sequence[Acceptance]
    trace: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Latency limits; None where there is none.

    Args:
        ttft_s: time to first token, a prompt of the context's length processed alone.
        tpot_s: time per output token, mean over steps.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """The best configuration of one method at one batch and context."""

    batch: int
    context: int
    contender: Contender
    acceptance: Acceptance
    result: Estimate
    intervals: Intervals

    @property
    def topology(self) -> str:
        """`off`, `chain` or `tree`."""
        if self.acceptance.draft_tokens == 0:
            return "off"
        return "chain" if self.acceptance.tree is None else "tree"

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second of the batch."""
        return float(self.result.tokens_per_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class MethodSchedule:
    """Batch ranges and draft lengths of one method's chains at one context."""

    method: str
    context: int
    schedule: Schedule


@dataclass(frozen=True, kw_only=True, slots=True)
class Optimum:
    """Answer of a search.

    Args:
        ranked: for every context and batch, each method's best choice, fastest first.
        schedules: one per method and context.
        dropped_batches: batches that were left out because plain decoding does not fit there.
    """

    ranked: Sequence[Sequence[Choice]]
    schedules: Sequence[MethodSchedule]
    dropped_batches: Sequence[int]


def search(
    contenders: Sequence[Contender],
    *,
    batches: Sequence[int],
    contexts: Sequence[int],
    generator: np.random.Generator,
    limits: Limits | None = None,
    drop_unfit: bool = False,
) -> Optimum:
    """Rank every contender at every batch and context, and derive batch schedules.

    Args:
        contenders: methods with their candidates; all on the same target and device.
        batches: batch sizes, increasing.
        contexts: cached tokens per request.
        generator: source of randomness for the intervals.
        limits: latency limits.
        drop_unfit: leave out batches that do not fit instead of raising.

    Raises:
        InfeasibleError: no configuration fits, or none meets the limits, at some batch and context.
    """
    bounds = limits or Limits()
    kept = [b for b in batches if not drop_unfit or _plain_fits(contenders[0], b, max(contexts))]
    if not kept:
        kept = list(batches[:1])
    b, c = np.array(kept, dtype=np.float64)[:, None], np.array(contexts, dtype=np.float64)[None, :]
    tables = [_evaluate(contender, b, c, bounds) for contender in contenders]
    ranked = []
    for column, context in enumerate(contexts):
        for row, batch in enumerate(kept):
            at = [_best(contender, table, row, column) for contender, table in zip(contenders, tables, strict=True)]
            found = [
                _choice(contender, index, batch, context, generator)
                for contender, index in zip(contenders, at, strict=True)
                if index is not None
            ]
            if not found:
                raise _infeasible(contenders[0], batch, context, bounds)
            ranked.append(sorted(found, key=lambda choice: -choice.tokens_per_s))
    schedules = [
        MethodSchedule(method=contender.method, context=context, schedule=schedule)
        for contender, table in zip(contenders, tables, strict=True)
        for column, context in enumerate(contexts)
        if (schedule := _schedule(contender, table[:, :, column], kept)) is not None
    ]
    return Optimum(
        ranked=ranked, schedules=schedules, dropped_batches=[x for x in batches if x not in kept]
    )  # fmt: skip


def _evaluate(contender: Contender, b: Array, c: Array, limits: Limits) -> Array:
    """Tokens per second [candidate, batch, context]; -inf where a candidate is not allowed."""
    rates = []
    for candidate in contender.candidates:
        result = estimate(contender.setting, candidate, batch=b, context=c)
        allowed = _allowed(contender.setting, candidate, result, b, c, limits)
        rates.append(np.where(allowed, result.tokens_per_s, -np.inf))
    return np.stack(rates)


def _allowed(setting: Setting, candidate: Acceptance, result: Estimate, b: Array, c: Array, limits: Limits) -> Mask:
    usable = USABLE_RATIO * setting.device.memory_bytes
    mask = needed_bytes(setting, candidate, batch=b, context=c) <= usable
    if limits.tpot_s is not None:
        mask = mask & (result.step_s / candidate.tokens_per_step <= limits.tpot_s)
    if limits.ttft_s is not None:
        first = prefill_s(setting, prompt_tokens=np.maximum(c, 1.0), drafts=candidate.draft_tokens > 0)
        mask = mask & (first + result.step_s <= limits.ttft_s)
    return np.asarray(mask)


def _best(contender: Contender, table: Array, row: int, column: int) -> int | None:
    index = int(np.argmax(table[:, row, column]))
    return index if np.isfinite(table[index, row, column]) else None


def _choice(contender: Contender, index: int, batch: int, context: int, generator: np.random.Generator) -> Choice:
    candidate = contender.candidates[index]
    point = estimate(contender.setting, candidate, batch=batch, context=context)
    spread = intervals(contender.setting, point, batch=batch, generator=generator)
    return Choice(
        batch=batch,
        context=context,
        contender=contender,
        acceptance=candidate,
        result=point,
        intervals=spread,
    )


def _schedule(contender: Contender, table: Array, batches: Sequence[int]) -> Schedule | None:
    """Ranges of draft lengths over the batches, from the chains alone; None where no chain was compared."""
    chains = [i for i, candidate in enumerate(contender.candidates) if candidate.tree is None]
    if len(chains) < 2:
        return None
    rates = np.where(np.isfinite(table[chains]), table[chains], np.nan).T
    runs = np.asarray(np.isfinite(rates).any(axis=1))
    lengths = [contender.candidates[i].draft_tokens for i in chains]
    if not runs.any():
        return None
    return batch_schedule([batch for batch, ok in zip(batches, runs.tolist(), strict=True) if ok], lengths, rates[runs])


def _plain_fits(contender: Contender, batch: int, context: int) -> bool:
    needed = needed_bytes(contender.setting, contender.candidates[0], batch=batch, context=context)
    return bool(np.all(needed <= USABLE_RATIO * contender.setting.device.memory_bytes))


def _infeasible(contender: Contender, batch: int, context: int, limits: Limits) -> InfeasibleError:
    setting, plain = contender.setting, contender.candidates[0]
    where = f"{setting.target.name} on {setting.device.name} at batch {batch}, context {context}"
    if not _plain_fits(contender, batch, context):
        needed = float(needed_bytes(setting, plain, batch=batch, context=context)) / GIB
        usable = USABLE_RATIO * setting.device.memory_bytes / GIB
        return InfeasibleError(
            f"{where} needs {needed:.1f} GiB on each device, which has {usable:.1f} GiB usable; "
            "use a smaller batch or context, fewer bits, or a larger --tp"
        )
    best = estimate(setting, plain, batch=batch, context=context)
    first = float(prefill_s(setting, prompt_tokens=max(context, 1), drafts=False)) + float(best.step_s)
    asked = [
        f"{name} <= {limit / MILLI:g} ms"
        for name, limit in (("TTFT", limits.ttft_s), ("TPOT", limits.tpot_s))
        if limit is not None
    ]
    return InfeasibleError(
        f"{where}: no configuration meets {' and '.join(asked)}; plain decoding has TTFT {first / MILLI:.3g} ms "
        f"and TPOT {float(best.step_s) / MILLI:.3g} ms"
    )
