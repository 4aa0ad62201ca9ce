"""What is the answer of a cell: the best draft, or why there is none?

A cell's row does not depend on which other cells are asked about, nor on who computes it. Leaves
out which cells there are (`cells`) and where rows go (`run`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from app.answers.sweep.cells import PLAIN, CellGroup, Cells
from app.answers.sweep.file import Sweep, recorded_source
from app.answers.sweep.table import table_of
from costmodel.answers.estimate import estimate, intervals, needed_bytes, step_cost
from costmodel.answers.first_token import unloaded_first_token_s
from costmodel.answers.fit import require_fit
from costmodel.answers.positions import require_positions
from costmodel.answers.settings import build_setting
from costmodel.answers.workload import Limits
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.candidates.static_candidates import TREE_SIZES
from costmodel.optimizers.drafters.named_drafters import drafter_source
from costmodel.optimizers.recommend import candidates_of, drafter_question
from costmodel.optimizers.search import rates_at
from hardware_profiles.errors import InfeasibleError, InputError, RooftreeError

if TYPE_CHECKING:
    import pyarrow as pa

    from costmodel.answers.estimate import Setting
    from costmodel.answers.steps.step import StepCost
    from costmodel.laws.acceptance import Acceptance
    from costmodel.optimizers.drafters.sources import Source
    from costmodel.passes.ops import Array

Row = dict[str, Any]
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
        return table_of([row for block in self.cells.blocks(shard) for row in self.rows(*block)])

    def rows(self, group: CellGroup, batches: Sequence[int], contexts: Sequence[int]) -> list[Row]:
        """A row for each batch with its context.

        Args:
            group: what they share.
            batches: requests.
            contexts: cached tokens per request, one a batch.
        """
        keys = [
            {**group.keys, "batch": b, "context": c} for b, c in zip(batches, contexts, strict=True)
        ]
        try:
            prepared = self._prepare(group)
            found = _answers(
                prepared,
                np.array(batches, dtype=float),
                np.array(contexts, dtype=float),
                self._seed,
            )
        except RooftreeError as error:
            return [{**key, "feasible": False, "reason": str(error)} for key in keys]
        return [key | answer for key, answer in zip(keys, found, strict=True)]

    def _prepare(self, group: CellGroup) -> _Prepared:
        where = self._sweep.place
        names = DeploymentNames(
            model=where(group.model),
            device=where(group.device),
            engine=where(group.engine),
            tensor_parallel=group.tensor_parallel,
        )
        asked = DecodingConfiguration(deployment=names)
        if group.drafter == PLAIN:
            contender = Contender(
                configuration=asked, setting=build_setting(asked), candidates=[geometric(0.0, 0)]
            )
            return _Prepared(contender, None)
        stated = group.recorded or ":" in group.drafter  # which is the same on every model
        at = "" if stated else names.model
        source = self._named(group.drafter, group.recorded, at).asked_on(names.model)
        asked = drafter_question(asked, source)
        setting = build_setting(asked)
        candidates = self._compared(group.drafter, group.recorded, at)
        return _Prepared(
            Contender(configuration=asked, setting=setting, candidates=candidates), source
        )

    def _source(self, text: str, recorded: bool, model: str) -> Source:
        if recorded:
            source: Source = recorded_source(self._sweep.place(text))
            return source
        return drafter_source(self._sweep.drafter(text), model=model)

    def _candidates(self, text: str, recorded: bool, model: str) -> list[Acceptance]:
        source = self._named(text, recorded, model)
        return candidates_of(
            source, None, None, TREE_SIZES, None, np.random.default_rng(self._seed)
        )


def _answers(prepared: _Prepared, b: Array, c: Array, seed: int) -> list[Row]:
    """What the cells of a group answer, in the order of batches and contexts."""
    contender, found = prepared.contender, [Row() for _ in b]
    plain = step_cost(prepared.setting, contender.candidates[0], batch=b, context=c)
    rates = rates_at(contender, b, c, Limits(), plain=plain)
    best = np.argmax(rates, axis=0)
    fits = np.isfinite(np.max(rates, axis=0)) & np.array(
        [_beyond(prepared, context) is None for context in c]
    )
    for index in np.unique(best[fits]).tolist():
        places = np.flatnonzero(fits & (best == index))
        shared = _shared(prepared, contender.candidates[index])
        known = plain if len(places) == len(b) else None
        for place, row in zip(
            places.tolist(),
            _numbers(prepared, index, b[places], c[places], seed, known),
            strict=True,
        ):
            found[place] = shared | row
    for place in np.flatnonzero(~fits).tolist():
        found[place] = _unfit(prepared, int(b[place]), int(c[place]))
    return found


def _numbers(
    prepared: _Prepared, index: int, b: Array, c: Array, seed: int, plain: StepCost | None
) -> Iterator[Row]:
    """Estimates of one configuration where it is the best; `plain` is the cost of plain steps
    there, where known.
    """
    setting, a = prepared.setting, prepared.contender.candidates[index]
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
    values = [
        np.broadcast_to(np.asarray(column).reshape(-1), b.shape).tolist()
        for column in columns.values()
    ]
    for row in zip(*values, strict=True):
        yield dict(zip(columns, row, strict=True))


def _shared(prepared: _Prepared, a: Acceptance) -> Row:
    """What a configuration is, and where its numbers come from."""
    setting, source = prepared.setting, prepared.source
    used = setting.overhead if a.draft_tokens else setting.plain_overhead
    row: Row = {
        "feasible": True,
        "method": prepared.contender.method,
        "topology": a.topology,
        "draft_tokens": a.draft_tokens,
        "tree": None if a.tree is None else json.dumps(a.tree.to_json()),
        "tokens_per_step": a.tokens_per_step,
        "remark": a.remark or None,
        "draft_model": prepared.contender.configuration.draft_model,
        "fidelity": setting.deployment.fidelity,
        "device_calibrated": setting.device.calibrated,
        "constants_from": setting.device.constants_from,
        "overhead_source": used.source,
    }
    if source is None:
        return row
    return row | {
        "acceptance_kind": source.kind,
        "acceptance_source": source.reference,
        "acceptance_label": source.label,
        "acceptance_borrowed": source.borrowed,
    }


def _unfit(prepared: _Prepared, batch: int, context: int) -> Row:
    """Why not even plain decoding fits, and what it would need."""
    from costmodel.answers.estimate import footprint_of

    if (beyond := _beyond(prepared, context)) is not None:
        return {"feasible": False, "method": prepared.contender.method, "reason": beyond}
    setting, plain = prepared.setting, prepared.contender.candidates[0]
    needed = footprint_of(setting, plain, batch=batch, context=context)
    row: Row = {
        "feasible": False,
        "method": prepared.contender.method,
        "memory_bytes": float(needed.total_bytes),
    }
    try:
        require_fit(setting, needed, f"batch {batch}, context {context}")
    except InfeasibleError as error:
        return row | {"reason": str(error)}
    return row | {"reason": "no configuration is allowed here"}


def _beyond(prepared: _Prepared, context: float) -> str | None:
    """Why a model cannot read a context of this length; None where it can."""
    try:
        require_positions(prepared.setting.target, context)
    except InputError as error:
        return str(error)
    return None
