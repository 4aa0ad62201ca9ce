"""What is the answer of a cell: the best draft, or why there is none?

A cell's row does not depend on which other cells are asked about, nor on who computes it. Leaves
out which cells there are (`cells`) and where rows go (`run`).
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from app.answers.sweep.cells import PLAIN, CellGroup, Cells
from app.answers.sweep.file import Sweep, recorded_source
from app.answers.sweep.loaded import Loads
from app.answers.sweep.table import SweepCell, table_of
from costmodel.answers.estimate import (
    Setting,
    estimate,
    footprint_of,
    intervals,
    needed_bytes,
    step_cost,
)
from costmodel.answers.first_token import unloaded_first_token_s
from costmodel.answers.fit import require_fit
from costmodel.answers.positions import require_positions
from costmodel.answers.settings import build_setting
from costmodel.answers.steps.step import StepCost
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import Acceptance, geometric
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.candidates.asked_shapes import shape_acceptances
from costmodel.optimizers.candidates.usual_shapes import usual_shapes
from costmodel.optimizers.drafters.named_drafters import drafter_source
from costmodel.optimizers.drafters.sources import Source
from costmodel.optimizers.pricing import evaluate
from costmodel.optimizers.recommend import drafter_question
from costmodel.passes.ops import Array
from hardware_profiles.errors import InfeasibleError, InputError, RooftreeError

_REMEMBERED = 1024  # drafters on models


class _Prepared(NamedTuple):
    """What the cells of a group share."""

    contender: Contender
    source: Source | None

    @property
    def setting(self) -> Setting:
        return self.contender.setting


class SweepEvaluation:
    """Answers the cells of one sweep; what they share is computed once.

    Args:
        sweep: which cells.
        seed: of the bootstrap, of the halves that trees are chosen on, and of drawn errors.
    """

    def __init__(self, sweep: Sweep, seed: int) -> None:
        self.cells = Cells(sweep)
        self._sweep, self._seed = sweep, seed
        self._named = lru_cache(_REMEMBERED)(self._source)
        self._compared = lru_cache(_REMEMBERED)(self._candidates)

    def shard(self, shard: int) -> pa.Table:
        """The rows of a shard."""
        return table_of([cell for block in self.cells.blocks(shard) for cell in self.rows(*block)])

    def rows(self, group: CellGroup, cells: Sequence[SweepCell]) -> list[SweepCell]:
        """Cells of a group with their answers.

        Args:
            group: what they share.
            cells: without answers.
        """
        try:
            prepared = self._prepare(group)
            if self._sweep.lists.is_loaded:
                loads = Loads(prepared.contender, self._sweep.lists.limits, self._seed)
                return [_served(prepared, loads, cell) for cell in cells]
            return _answered(prepared, cells, self._seed)
        except RooftreeError as error:
            return [replace(cell, reason=str(error)) for cell in cells]

    def _prepare(self, group: CellGroup) -> _Prepared:
        where = self._sweep.place
        names = DeploymentNames(
            model=where(group.model),
            device=where(group.device),
            engine=where(group.engine),
            tensor_parallel=group.tensor_parallel,
        )
        plain = DecodingConfiguration(deployment=names)
        if group.drafter == PLAIN:
            contender = Contender(
                configuration=plain, setting=build_setting(plain), candidates=[geometric(0.0, 0)]
            )
            return _Prepared(contender, None)
        stated = group.recorded or ":" in group.drafter  # the same on every model
        at = "" if stated else names.model
        source = self._named(group.drafter, group.recorded, at).asked_on(names.model)
        drafting = drafter_question(plain, source)
        contender = Contender(
            configuration=drafting,
            setting=build_setting(drafting),
            candidates=self._compared(group.drafter, group.recorded, at),
        )
        return _Prepared(contender, source)

    def _source(self, text: str, recorded: bool, model: str) -> Source:
        if recorded:
            return recorded_source(self._sweep.place(text))
        return drafter_source(self._sweep.drafter(text), model=model)

    def _candidates(self, text: str, recorded: bool, model: str) -> list[Acceptance]:
        source = self._named(text, recorded, model)
        return shape_acceptances(
            source, usual_shapes(source), generator=np.random.default_rng(self._seed)
        )


def _served(prepared: _Prepared, loads: Loads, cell: SweepCell) -> SweepCell:
    """A cell with what serves its load, or with the reason why nothing does."""
    try:
        best = loads.served(cell)
    except RooftreeError as error:
        return replace(cell, method=prepared.contender.method, reason=str(error))
    return replace(_configured(cell, prepared, best.acceptance), **best.numbers)


def _answered(prepared: _Prepared, cells: Sequence[SweepCell], seed: int) -> list[SweepCell]:
    """The cells of a group with their answers."""
    contender = prepared.contender
    b = np.array([cell.batch for cell in cells], dtype=float)
    c = np.array([cell.context for cell in cells], dtype=float)
    plain = step_cost(prepared.setting, contender.candidates[0], batch=b, context=c)
    rates = evaluate(contender, batch=b, context=c, plain=plain).value
    best = np.argmax(rates, axis=0)
    fits = np.isfinite(np.max(rates, axis=0)) & np.array(
        [_beyond(prepared, context) is None for context in c]
    )
    answered = list(cells)
    for index in np.unique(best[fits]).tolist():
        places = np.flatnonzero(fits & (best == index))
        acceptance = contender.candidates[index]
        whole = plain if len(places) == len(b) else None
        columns = _numbers(prepared, acceptance, b[places], c[places], seed, whole)
        for at, place in enumerate(places.tolist()):
            numbers = {name: values[at] for name, values in columns.items()}
            answered[place] = replace(_configured(cells[place], prepared, acceptance), **numbers)
    for place in np.flatnonzero(~fits).tolist():
        answered[place] = _unfit(prepared, cells[place])
    return answered


def _numbers(
    prepared: _Prepared, a: Acceptance, b: Array, c: Array, seed: int, plain: StepCost | None
) -> dict[str, list[Any]]:
    """Estimates of one configuration where it is the best, by column; `plain` is the cost of plain
    steps there, where it was computed.
    """
    setting = prepared.setting
    result = estimate(setting, a, batch=b, context=c, plain=plain)
    spread = intervals(setting, result, batch=b, generator=np.random.default_rng(seed), alike=True)
    first = unloaded_first_token_s(
        setting,
        prompt_tokens=np.maximum(c, 1.0),
        batch=b,
        step_s=result.step_s,
        drafts=a.draft_tokens > 0,
    )
    columns = {
        "plain_tokens_per_s": b / result.plain.total_s,
        "tokens_per_s": result.tokens_per_s,
        "step_s": result.step_s,
        "speedup": result.speedup,
        "ttft_s": first,
        "tpot_s": result.step_s / a.tokens_per_step,
        "memory_bytes": needed_bytes(setting, a, batch=b, context=c),
        "limit": result.step.limit,
    }
    for name in ("step_s", "tokens_per_step", "tokens_per_s", "speedup"):
        columns[f"{name}_low"], columns[f"{name}_high"] = getattr(spread, name)
    return {
        name: np.broadcast_to(np.asarray(column).reshape(-1), b.shape).tolist()
        for name, column in columns.items()
    }


def _configured(cell: SweepCell, prepared: _Prepared, a: Acceptance) -> SweepCell:
    """A cell with its configuration, and with where its numbers come from."""
    setting, source = prepared.setting, prepared.source
    overhead = setting.overhead if a.draft_tokens else setting.plain_overhead
    return replace(
        cell,
        feasible=True,
        method=prepared.contender.method,
        topology=a.topology,
        draft_tokens=a.draft_tokens,
        tree=None if a.tree is None else json.dumps(a.tree.to_json()),
        tokens_per_step=a.tokens_per_step,
        remark=a.remark or None,
        acceptance_kind=None if source is None else source.kind,
        acceptance_source=None if source is None else source.reference,
        acceptance_label=None if source is None else source.label,
        acceptance_borrowed=None if source is None else source.borrowed,
        draft_model=prepared.contender.configuration.draft_model,
        fidelity=setting.deployment.fidelity,
        device_calibrated=setting.device.calibrated,
        constants_from=setting.device.constants_from,
        overhead_source=overhead.source,
    )


def _unfit(prepared: _Prepared, cell: SweepCell) -> SweepCell:
    """A cell in which not even plain decoding fits, with the reason and what it would need."""
    cell = replace(cell, method=prepared.contender.method)
    batch, context = cell.batch or 0, cell.context or 0
    if (beyond := _beyond(prepared, context)) is not None:
        return replace(cell, reason=beyond)
    setting, plain = prepared.setting, prepared.contender.candidates[0]
    needed = footprint_of(setting, plain, batch=batch, context=context)
    reason = "no configuration is allowed here"
    try:
        require_fit(setting, needed, f"batch {batch}, context {context}")
    except InfeasibleError as error:
        reason = str(error)
    return replace(cell, memory_bytes=float(needed.total_bytes), reason=reason)


def _beyond(prepared: _Prepared, context: float) -> str | None:
    """Why a model cannot read a context of this length; None where it can."""
    try:
        require_positions(prepared.setting.target, context)
    except InputError as error:
        return str(error)
    return None
