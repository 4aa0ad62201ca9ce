"""Which recorded states can stand for a state that no recording went through?

Every pass of every run of a prompt is a state: which positions held tokens, and how sure the model
was of the others. Runs of several traces go together if they are of one model, mask and canvas.
Which positions a pass has cells of is kept as bits, so that states take 20 bytes a cell, 2 bits a
canvas position, some 100 bytes a pass and 4 bytes a position of a run: 0.9 GB at the limits of
`traces.kinds.confidence`, and one group of passes more while they are made. Leaves out which state
is taken (`compiled`, `walk`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.confidence import CELL_FIELDS, ConfidenceTrace
from traces.kinds.refine_policy import RefinePolicy

_SAME = ("vocabulary", "mask_id", "end_id", "canvas_tokens")
_BITS = 64


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, weakref_slot=True)
class Anchors:
    """States of P prompts, prompt after prompt, run after run, pass after pass: n rows over a
    canvas of L.

    Attributes:
        canvas_tokens, mask_id, end_id: as in the traces.
        prompts: one text per prompt.
        prompt_kinds: their strata.
        policies: of all runs.
        row_offsets: int64[P+1], rows of every prompt.
        run_of_row: int64[n], place in `final_ids`.
        policy_of_run: int64[runs], place in `policies`.
        final_ids: int32[runs, L].
        steps: int64[runs].
        revealed: uint64[n, words], bit i % 64 of word i // 64: position i held a token.
        computed: uint64[n, words], bits in the same way: the pass has a cell of position i.
        first_cell: int64[n], place of the pass's first cell; the others follow in the order of
            positions.
        top_ids: int32[c].
        values: float32[c, 1 + fields]: doubt, and what `names` says, of every cell.
        names: optional fields of cells that all runs hold.
        file: the first trace's, for messages.
    """

    canvas_tokens: int
    mask_id: int
    end_id: int | None
    prompts: tuple[str, ...]
    prompt_kinds: tuple[str, ...]
    policies: tuple[RefinePolicy, ...]
    row_offsets: NDArray[np.int64]
    run_of_row: NDArray[np.int64]
    policy_of_run: NDArray[np.int64]
    final_ids: NDArray[np.int32]
    steps: NDArray[np.int64]
    revealed: NDArray[np.uint64]
    computed: NDArray[np.uint64]
    first_cell: NDArray[np.int64]
    top_ids: NDArray[np.int32]
    values: NDArray[np.float32]
    names: tuple[str, ...]
    file: str | None = None

    def cells(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Places of the cells of some passes: int64[rows, L], -1 where the pass computed none."""
        flags = np.unpackbits(
            self.computed[rows].astype("<u8").view(np.uint8), axis=1, bitorder="little"
        )
        there = flags[:, : self.canvas_tokens].astype(bool)
        place = self.first_cell[rows, None] + np.cumsum(there, axis=1) - 1
        return np.where(there, place, -1)

    def of_prompts(self, prompts: slice) -> Anchors:
        """The states of some prompts that follow each other, as views."""
        first, last, _ = prompts.indices(len(self.prompts))
        offsets = self.row_offsets[first : last + 1]
        rows = slice(int(offsets[0]), int(offsets[-1]))
        return replace(
            self,
            prompts=self.prompts[first:last],
            prompt_kinds=self.prompt_kinds[first:last],
            row_offsets=offsets - offsets[0],
            run_of_row=self.run_of_row[rows],
            revealed=self.revealed[rows],
            computed=self.computed[rows],
            first_cell=self.first_cell[rows],
        )

    def run_of(self, policy: RefinePolicy) -> NDArray[np.int64] | None:
        """Every prompt's run of a policy, int64[P]; None where a prompt has none."""
        if policy not in self.policies:
            return None
        place = self.policies.index(policy)
        runs = np.full(len(self.prompts), -1, dtype=np.int64)
        of_row = np.repeat(np.arange(len(self.prompts)), np.diff(self.row_offsets))
        rows = np.flatnonzero(self.policy_of_run[self.run_of_row] == place)
        runs[of_row[rows]] = self.run_of_row[rows]
        return None if np.any(runs < 0) else runs


def pooled(traces: ConfidenceTrace | Sequence[ConfidenceTrace]) -> Anchors:
    """The states of one or more traces, by prompt.

    Args:
        traces: of one model, mask and canvas, cached alike; prompts of one name must be the same
            text.

    Raises:
        InputError: traces that do not go together, one policy twice for a prompt, or no run that
            took a pass.
    """
    recordings = [traces] if isinstance(traces, ConfidenceTrace) else list(traces)
    _check_alike(recordings)
    policies = tuple(dict.fromkeys(policy for trace in recordings for policy in trace.policies))
    names = tuple(dict.fromkeys(name for trace in recordings for name in trace.request_ids))
    place = {name: at for at, name in enumerate(names)}
    prompt = np.array(
        [place[name] for trace in recordings for name in trace.request_ids], dtype=np.int64
    )
    kinds = dict(
        zip(
            (n for t in recordings for n in t.request_ids),
            (k for t in recordings for k in t.prompt_kinds),
            strict=True,
        )
    )
    policy = np.array(
        [policies.index(trace.policies[at]) for trace in recordings for at in trace.policy_of_run],
        dtype=np.int64,
    )
    if len(np.unique(prompt * len(policies) + policy)) < len(prompt):
        raise InputError("must name each prompt once per policy", key="request_ids")
    steps = np.concatenate([trace.steps for trace in recordings])
    if not steps.sum():
        raise InputError("holds no pass", key="steps", file=recordings[0].file)
    run_of_step = np.repeat(np.arange(len(prompt)), steps)
    order = np.lexsort((np.arange(len(run_of_step)), policy[run_of_step], prompt[run_of_step]))
    revealed, computed, first_cell = _rows(recordings, order)
    fields = tuple(
        name
        for name in CELL_FIELDS
        if all(getattr(trace, name) is not None for trace in recordings)
    )
    return Anchors(
        canvas_tokens=recordings[0].canvas_tokens,
        mask_id=recordings[0].mask_id,
        end_id=recordings[0].end_id,
        prompts=names,
        prompt_kinds=tuple(kinds[name] for name in names),
        policies=policies,
        row_offsets=np.searchsorted(prompt[run_of_step][order], np.arange(len(names) + 1)).astype(
            np.int64
        ),
        run_of_row=run_of_step[order],
        policy_of_run=policy,
        final_ids=np.concatenate([trace.final_ids for trace in recordings]),
        steps=steps,
        revealed=revealed,
        computed=computed,
        first_cell=first_cell,
        top_ids=np.concatenate([trace.top_ids for trace in recordings]),
        values=_values(recordings, ("doubt", *fields)),
        names=fields,
        file=recordings[0].file,
    )


def _rows(
    traces: Sequence[ConfidenceTrace], order: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]:
    """What every pass found revealed and what it computed, as bits, and its first cell: in the
    order of states.
    """
    words = -(-traces[0].canvas_tokens // _BITS)
    revealed, computed = (np.empty((len(order), words), dtype=np.uint64) for _ in range(2))
    # `place[i]`: row of pass i in the order of states
    counts, place, start = np.empty(len(order), dtype=np.int64), np.argsort(order), 0
    for trace in traces:
        for part in trace.parts():
            index = np.arange(part.start, part.stop)
            run = np.searchsorted(trace.step_offsets, index, side="right") - 1
            masked, rows = trace.masked(part), place[start + index]
            revealed[rows] = packed(
                trace.committed_at[run] < (index - trace.step_offsets[run])[:, None]
            )
            computed[rows] = packed(masked)
            counts[start + index] = masked.sum(axis=1)
        start += len(trace.forward)
    return revealed, computed, (np.cumsum(counts) - counts)[order]


def _values(traces: Sequence[ConfidenceTrace], names: Sequence[str]) -> NDArray[np.float32]:
    """Fields of all cells side by side: float32[c, names]."""
    values = np.empty((sum(trace.top_ids.size for trace in traces), len(names)), dtype=np.float32)
    for place, name in enumerate(names):
        np.concatenate(
            [getattr(trace, name) for trace in traces], out=values[:, place], casting="same_kind"
        )
    return values


def packed(flags: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Flags of a canvas as bits: uint64[rows, ceil(L / 64)], bit i % 64 of word i // 64.

    Example:
        >>> packed(np.array([[True, False, True]])).tolist()
        [[5]]
    """
    words = -(-flags.shape[1] // _BITS)
    wide = np.zeros((len(flags), words * _BITS), dtype=bool)
    wide[:, : flags.shape[1]] = flags
    bits: NDArray[np.uint64] = (
        np.packbits(wide, axis=1, bitorder="little").view("<u8").astype(np.uint64)
    )
    return bits


def _check_alike(traces: Sequence[ConfidenceTrace]) -> None:
    if not traces:
        raise InputError("must be one trace at least", key="traces")
    first = traces[0]
    for trace in traces[1:]:
        for key in _SAME:
            if getattr(trace, key) != getattr(first, key):
                rule = f"must be {getattr(first, key)}, as in {first.file or 'the first trace'}"
                raise InputError(rule, file=trace.file, key=key, value=getattr(trace, key))
        if trace.provenance.model != first.provenance.model:
            rule = f"must be {first.provenance.model!r}, as in {first.file or 'the first trace'}"
            raise InputError(rule, file=trace.file, key="model", value=trace.provenance.model)
    caches = {policy.cache for trace in traces for policy in trace.policies}
    if len(caches) > 1:
        raise InputError(
            "must be one for all anchors: a cache changes what the model is sure of",
            key="cache",
            value=", ".join(sorted(caches)),
        )
    _check_prompts(traces)


def _check_prompts(traces: Sequence[ConfidenceTrace]) -> None:
    texts: dict[str, bytes] = {}
    for trace in traces:
        for run, name in enumerate(trace.request_ids):
            text = trace.prompt_ids[
                trace.prompt_offsets[run] : trace.prompt_offsets[run + 1]
            ].tobytes()
            if texts.setdefault(name, text) != text:
                raise InputError(
                    "must be the same prompt in all its runs",
                    file=trace.file,
                    key="prompt_ids",
                    value=name,
                )
