"""What does the cost model say about an iteration, any number of times a second?

Tabulates passes of a setting once, for the sizes that a scenario can reach, and looks iterations
up; decode-only iterations on grid points cost exactly what `costmodel.answers.estimate` says. At
fidelity `measured` passes that only decode or only compute a prompt follow those that were
measured. Leaves out skewed contexts (the mean counts).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from costmodel.answers.estimate import Setting
from costmodel.answers.steps.step import verify_passes
from costmodel.parallel.plan import ParallelPlan
from costmodel.passes.forward import Logits, launched_s, pass_cost
from costmodel.passes.ops import Mask
from simulator.loop.state import Real
from simulator.loop.tables import Tables, draft_passes_s, iteration_s, no_tables
from simulator.timing.draft_tables import draft_grid, draft_rows
from simulator.timing.engine_passes import EnginePasses, planned_seconds
from simulator.timing.sampled_rows import at_every_row, sampled_rows
from traces.kinds.tree import Tree

_ATTENTION = ("attention", "mla", "state", "context")
_HEAD = ("head", "sampler")
_EXACT_REQUESTS = 32  # beyond, the grid of requests widens by 6 % from point to point
_EXACT_QUERIES = 9
_PROMPT_STEP = 64
_SHORT_PROMPT_STEP = 16  # where prompts were measured, short ones too
_COLUMNS = 256
_MOST_ROWS = 16384  # of the table; larger passes follow the slope of its upper half


class TableSize(NamedTuple):
    """What the iterations of a scenario can hold.

    Args:
        rows: query tokens of a pass.
        requests: that decode together.
        context_tokens: of one request.
        query_tokens: most of one decoding request, 1 + K.
        tree: the tree that is drafted, if it is one.
        levels: mean tokens that a request reads in each draft pass, where every step has a tree of
            its own; then K stands for draft passes where drafting is timed.
        sizes: query tokens that passes have most often, whose times are not interpolated.
    """

    rows: int
    requests: int
    context_tokens: int
    query_tokens: int
    tree: Tree | None = None
    levels: tuple[float, ...] = ()
    sizes: tuple[int, ...] = ()


@runtime_checkable
class TabledTimer(Protocol):
    """A timer whose answers can be looked up by compiled code."""

    def tables(self, size: TableSize, *, drafts: bool) -> Tables:
        """Tables for a scenario; without `drafts` draft passes are free."""


class CostModelTimer:
    """Times iterations with the cost model.

    Args:
        setting: target, device, drafter and engine; its drafter's passes are timed by
            `CostModelDraft`.
        plan: how the target is spread; None: one tensor-parallel group, as the setting says. With a
            pipeline every stage works on its share of the running requests, and an iteration is the
            time in which all of them advance.
        passes: the kernels of a particular engine, under the same plan; None: the setting's
            deployment as it is.
        least: tables are made for iterations of this size or twice it, four times and so on, so
            that scenarios share tables and have the same answers alone and beside others; None: for
            each scenario's own size.
    """

    def __init__(
        self,
        setting: Setting,
        plan: ParallelPlan | None = None,
        *,
        passes: EnginePasses | None = None,
        least: TableSize | None = None,
    ) -> None:
        deployment = setting.deployment
        self._whole = deployment  # of whole passes, which only these may ask for
        if deployment.fidelity == "measured":
            deployment = replace(deployment, fidelity="calibrated")
        if plan is not None:
            deployment = replace(deployment, tensor_parallel=plan.tensor)
        self.setting = replace(setting, deployment=deployment)
        self.plan = plan
        self.passes = passes
        self.least = least
        self._cached: dict[tuple[TableSize, bool], Tables] = {}

    def __call__(
        self,
        decode_requests: int,
        query_tokens: float,
        decode_context_tokens: float,
        prefill: Sequence[tuple[int, int]],
        longest_context: float = 0.0,
    ) -> float:
        """Seconds of one iteration without draft passes: see `StepTimer`. Prompts are taken to end
        with it.
        """
        longest = max([longest_context, *(new + cached for new, cached in prefill)])
        size = TableSize(
            rows=round(decode_requests * query_tokens) + sum(new for new, _ in prefill),
            requests=max(decode_requests, 1),
            context_tokens=int(max(longest, decode_context_tokens / max(decode_requests, 1))) + 1,
            query_tokens=int(np.ceil(max(query_tokens, 1.0))),
        )
        tables = self.tables(self._rounded(size), drafts=False)
        return iteration_s(
            tables,
            decode_requests,
            query_tokens,
            decode_context_tokens,
            prefill,
            speculates=bool(self._speculates(np.asarray(query_tokens))),
        )

    def tables(self, size: TableSize, *, drafts: bool) -> Tables:
        """The tables of a scenario. Shared ones are kept, of others the latest.

        Args:
            size: what iterations can hold.
            drafts: those of the setting's draft passes, and none of the target.
        """
        if self.least is not None:
            size = _doubled(self.least, size)
        if (size, drafts) not in self._cached:
            if self.least is None:
                self._cached.clear()
            self._cached[size, drafts] = (
                self._draft_tables(size) if drafts else self._tabulate(size)
            )
        return self._cached[size, drafts]

    def _rounded(self, size: TableSize) -> TableSize:
        """At least this size, and as much as the tables at hand, so that single questions seldom
        rebuild them.
        """
        latest = next((size for size, _ in reversed(self._cached)), TableSize(2048, 256, 8192, 9))
        rows, requests, context, query_tokens = (
            max(a, b) for a, b in zip(size[:4], latest[:4], strict=True)
        )
        return TableSize(rows, requests, context, query_tokens)

    def _parts(
        self,
        batch: Real,
        query_tokens: Real,
        context: Real,
        logits: Logits,
        prefill: bool = False,
        *,
        verifies: bool = False,
    ) -> tuple[Real, Real, Real]:
        """Seconds of attention, of the output head, and of everything else; of decode passes as the
        method verifies.
        """
        seconds = self._seconds(batch, query_tokens, context, logits, prefill, verifies=verifies)
        shape = np.broadcast_shapes(np.shape(batch), np.shape(query_tokens), np.shape(context))

        def total(names: set[str]) -> Real:
            total_s = sum((seconds[name] for name in seconds if name in names), start=np.zeros(()))
            return np.broadcast_to(np.asarray(total_s), shape)

        others = set(seconds) - set(_ATTENTION) - set(_HEAD)
        return total(set(_ATTENTION)), total(set(_HEAD)), total(others)

    def _seconds(
        self,
        batch: Real,
        query_tokens: Real,
        context: Real,
        logits: Logits,
        prefill: bool,
        *,
        verifies: bool = False,
    ) -> Mapping[str, Real]:
        """Seconds of a pass by operation."""
        d = self._whole if prefill else self.setting.deployment
        shape = {"batch": batch, "query_tokens": query_tokens, "context": context}
        if self.passes is not None:
            return self.passes.seconds(**shape, logits=logits, prefill=prefill)
        if self.plan is not None:
            return self._spread(batch, query_tokens, context, logits, prefill)
        if verifies:
            return self._verify_seconds(batch, query_tokens, context)
        return pass_cost(d, **shape, logits=logits, prefill=prefill).seconds

    def _spread(
        self, batch: Real, query_tokens: Real, context: Real, logits: Logits, prefill: bool
    ) -> Mapping[str, Real]:
        """Seconds by operation of passes spread by the plan."""
        assert self.plan is not None
        shape = {"batch": batch, "query_tokens": query_tokens, "context": context}
        return planned_seconds(
            self.setting.deployment, self.plan, **shape, logits=logits, prefill=prefill
        )

    def _verify_seconds(self, batch: Real, query_tokens: Real, context: Real) -> dict[str, Real]:
        """Seconds by operation of passes that verify, with the rows that ride on them, less the
        layers that drafted.
        """
        verify_s: dict[str, Real] = {}
        for weight, cost in verify_passes(
            self._whole,
            self.setting.drafter,
            batch=batch,
            draft_tokens=query_tokens - 1.0,
            context=context,
            speculates=self._speculates(query_tokens),
        ):
            for name, value in cost.seconds.items():
                verify_s[name] = verify_s.get(name, np.zeros(())) + weight * value
        return verify_s

    def _speculates(self, query_tokens: Real) -> Mask:
        """Where a pass is of a step that speculates, as far as its query tokens tell: always, if
        drafts are made while it runs or have rows of their own on it.
        """
        method = self.setting.drafter.method
        always = method.batch.drafts_during_verify or (
            method.may_propose_nothing and method.shape.riding > 0
        )
        return np.asarray((query_tokens > 1.0) | always)

    def _draft_tables(self, size: TableSize) -> Tables:
        """What draft passes take, on the grid of the target's attention."""
        setting = replace(
            self.setting, deployment=replace(self.setting.deployment, fidelity=self._whole.fidelity)
        )
        queries, requests, context = _grid(size)
        draft_s = draft_grid(setting, queries, requests, context, size.tree, size.levels)
        return no_tables()._replace(
            query_axis=queries,
            query_below=below(queries),
            request_axis=requests,
            request_below=below(requests),
            context_step=float(context[1]),
            attention_s=draft_s,
            draft_s=draft_s,
            draft_row_s=draft_rows(setting, _rows(size)),
        )

    def _tabulate(self, size: TableSize) -> Tables:
        setting, one, none = self.setting, np.ones(()), np.zeros(())
        rows = self._timed_rows(size)
        # measurements tell apart the rows of a prompt and of decodes
        prompts_alone = self._whole.fidelity == "measured"
        batch, new = (one, rows) if prompts_alone else (rows, one)
        passes_s = self._parts(batch, new, none, "none", prompts_alone)[2]
        row_s = _sloped(np.concatenate([[0.0], at_every_row(rows, passes_s)]))
        sampled = np.arange(
            1.0, min(size.requests * size.query_tokens + size.requests, _MOST_ROWS) + 2.0
        )
        head_s = _sloped(np.concatenate([[0.0], self._parts(sampled, one, none, "all")[1]]))
        queries, requests, context = _grid(size)
        attention, together = self._decode_grid(queries, requests, context, row_s, head_s)
        prompt_step = _SHORT_PROMPT_STEP if prompts_alone else _PROMPT_STEP
        prompts = np.arange(0.0, size.context_tokens + 2.0 * _PROMPT_STEP, prompt_step)
        encodes = setting.target.encoder is not None
        # a decoder's first token attends to the whole text that its encoder read
        begins: Logits = "last" if encodes else "none"
        prompt = self._parts(one, np.maximum(prompts, 1.0), none, begins, True)[0]
        reread = self._parts(one, one, prompts, "none", True)[0]
        repeated, last_row_s = self._repeated(prompts, reread, rows)
        plain, own = setting.plain_overhead, setting.overhead
        host_s = sum(stage.draft.host_s for stage in setting.drafter.stages)
        # passes over open blocks have several tokens and draft none
        drafting = float(setting.drafter.method.drafts)
        speculative_s = float(own.step_s + drafting * own.draft_s + host_s - plain.step_s)
        return Tables(
            row_s=row_s,
            head_s=head_s,
            attention_s=attention,
            together_s=together,
            query_axis=queries,
            query_below=below(queries),
            request_axis=requests,
            request_below=below(requests),
            context_step=float(context[1]),
            prompt_s=np.maximum.accumulate(prompt - prompt[0]),
            reread_s=reread - reread[0] - repeated,
            repeated_s=repeated,
            prompt_step=float(prompt_step),
            prompt_launch_s=float(prompt[0]),
            step_s=float(plain.step_s),
            request_s=float(plain.request_s),
            speculative_step_s=speculative_s,
            speculative_request_s=float(own.request_s - plain.request_s),
            accepted_s=float(own.accepted_s),
            verify_ratio=drafting * float(own.verify_ratio),
            draft_s=np.zeros_like(attention),
            draft_row_s=np.zeros(2),
            graph_rows=self.passes.graph_rows if self.passes is not None else 0,
            eager_s=self.passes.eager_s if self.passes is not None else 0.0,
            launched_s=launched_s(self.setting.deployment) if self._waits else 0.0,
            waiting_s=self._waiting_rows(rows) if self._waits else np.zeros(2),
            prompt_host_s=self._prompt_host_s,
            overlapped=int(self.passes.overlapped) if self.passes is not None else 0,
            idle_s=self.passes.host.idle_s if self.passes is not None else 0.0,
            idle_request_s=self.passes.host.idle_request_s if self.passes is not None else 0.0,
            ranks=self._copies,
            rank_row_s=self._rank_rows(rows),
            encoder_s=self._encoder_rows(rows) if encodes else np.zeros(0),
            last_row_s=last_row_s,
        )

    def _repeated(self, cached: Real, reread: Real, rows: Real) -> tuple[Real, Real]:
        """What parts of prompts take that whole ones do not: seconds that each spends anew on the
        tokens before it, and by rows those of layers that only its last token runs.

        Args:
            cached: tokens before a part.
            reread: seconds in which one prompt token attends to so many.
            rows: of passes.
        """
        target, one, none = self.setting.target, np.ones(()), np.zeros(())
        if target.cross_decoder is None:
            expands = any(block.attention.expands_prompts for block, _ in target.blocks)
            return (reread - reread[0]) * expands, np.zeros(0)
        layers = replace(self.setting.deployment, architecture=target.cross_decoder)
        timer = CostModelTimer(replace(self.setting, deployment=layers), self.plan)
        attention = timer._parts(one, one, cached, "none")[0]
        row_s = at_every_row(rows, timer._parts(rows, one, none, "none")[2])
        return attention - attention[0], _sloped(np.concatenate([[0.0], row_s]))

    def _timed_rows(self, size: TableSize) -> Real:
        """Rows of passes that are timed: all of a scenario's own table, some of a shared one."""
        rows = _rows(size)
        return rows if self.least is None else sampled_rows(rows.size)

    def _encoder_rows(self, rows: Real) -> Real:
        """Seconds by prompt rows of an encoder and of the keys and values made of its output,
        attention left out.
        """
        own = self._parts(np.ones(()), rows, np.zeros(()), "none", True)[2]
        return _sloped(np.concatenate([[0.0], at_every_row(rows, own)]))

    @property
    def _waits(self) -> bool:
        """Whether passes by rows count what the device waits for a host that launches layers."""
        whole = self._whole.fidelity == "measured" or self.setting.target.encoder is not None
        return self.passes is None and self.plan is None and not whole

    def _waiting_rows(self, rows: Real) -> Real:
        """Seconds by rows that the device waits for its host."""
        one, none = np.ones(()), np.zeros(())
        seconds = self._seconds(rows, one, none, "none", False)
        waited = np.broadcast_to(seconds.get("host", none), rows.shape)
        return _sloped(np.concatenate([[0.0], at_every_row(rows, waited)]))

    @property
    def _prompt_host_s(self) -> float:
        """Host seconds for every prompt of a pass: of the kernels at hand, else where nothing hides
        them.
        """
        usual = self.setting.engine.scheduler
        hidden = usual is None or usual.overlapped_scheduling
        return (
            self.passes.host.prompt_s
            if self.passes
            else 0.0
            if hidden
            else self.setting.engine.host.prompt_s
        )

    @property
    def _copies(self) -> int:
        """Data copies among which an iteration's requests are dealt out."""
        return 1 if self.plan is None else self.plan.data

    def _rank_rows(self, rows: Real) -> Real:
        """Seconds of all but experts by rows of one data copy, [rows], where there are several."""
        if self._copies == 1:
            return np.zeros(2)
        seconds = self._seconds(rows * self._copies, np.ones(()), np.zeros(()), "none", False)
        own = sum(
            (seconds[name] for name in seconds if name not in (*_ATTENTION, *_HEAD, "moe")),
            start=np.zeros(()),
        )
        return _sloped(np.concatenate([[0.0], at_every_row(rows, own)]))

    def _decode_grid(
        self, queries: Real, requests: Real, context: Real, row_s: Real, head_s: Real
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What a pass costs beyond its rows, and how much less its rows cost than those of as many
        requests.
        """
        shape = (queries.size, requests.size, context.size)
        attention, head, rest = (
            np.broadcast_to(part, shape)
            for part in self._parts(
                requests[None, :, None],
                queries[:, None, None],
                context[None, None, :],
                "all",
                verifies=True,
            )
        )
        rows = (queries[:, None] * requests[None, :])[:, :, None]
        alone = extended(row_s, rows)
        together = (alone - rest)[:, :, :1]
        beyond = attention + (rest - alone) + together + (head - extended(head_s, rows))
        return np.array(beyond), np.array(together[:, :, 0])


class CostModelDraft:
    """Times draft passes with the cost model.

    Args:
        setting: target, device, drafter and engine.
        least: as of `CostModelTimer`.
    """

    def __init__(self, setting: Setting, *, least: TableSize | None = None) -> None:
        self.setting = setting
        self._timer = CostModelTimer(setting, least=least)

    def __call__(
        self,
        decode_requests: int,
        draft_tokens: int,
        decode_context_tokens: float,
        prefill_tokens: int,
    ) -> float:
        """Seconds that drafting adds to an iteration: see `DraftTimer`."""
        context = decode_context_tokens / max(decode_requests, 1)
        size = TableSize(
            max(prefill_tokens, 256),
            max(decode_requests, 64),
            int(max(context, 4096.0)) + 1,
            draft_tokens + 1,
        )
        tables = self.tables(size, drafts=True)
        return draft_passes_s(
            tables, decode_requests, draft_tokens, decode_context_tokens, prefill_tokens
        )

    def tables(self, size: TableSize, *, drafts: bool) -> Tables:
        """Tables of a scenario: see `CostModelTimer.tables`."""
        return self._timer.tables(size, drafts=drafts)


def _doubled(least: TableSize, size: TableSize) -> TableSize:
    """The smallest size that covers `size` and whose numbers are those of `least` times powers of
    two.
    """
    rows, requests, context_tokens, query_tokens = (
        have * 2 ** (-(-max(want, 1) // have) - 1).bit_length()
        for have, want in zip(least[:4], size[:4], strict=True)
    )
    return TableSize(
        rows, requests, context_tokens, query_tokens, size.tree, size.levels, size.sizes
    )


def _rows(size: TableSize) -> Real:
    """Rows of passes that are tabulated, from 1 on."""
    return np.arange(1.0, min(size.rows, _MOST_ROWS) + 2.0)


def _grid(size: TableSize) -> tuple[Real, Real, Real]:
    """Query tokens, requests and mean contexts of decoding requests that are tabulated."""
    step = _PROMPT_STEP * max(1.0, np.ceil(size.context_tokens / _COLUMNS / _PROMPT_STEP))
    return (
        query_axis(size),
        request_axis(size.requests),
        np.arange(0.0, size.context_tokens + 2.0 * step, step),
    )


def query_axis(size: TableSize) -> Real:
    """Grid of query tokens of a decoding request: 1 and the tree's nodes, or few numbers and then
    every 4/3rd.
    """
    if size.tree is not None:
        return np.unique(np.array([1.0, float(size.tree.nodes)]))
    most = size.query_tokens
    axis = list(range(1, min(most, _EXACT_QUERIES) + 1))
    while axis[-1] < most:
        axis.append(min(most, int(axis[-1] * 4 / 3) + 1))
    return np.asarray(
        sorted({*axis, *(rows for rows in size.sizes if rows <= most)}), dtype=np.float64
    )


def request_axis(requests: int) -> Real:
    """Grid of decoding requests, two at least."""
    requests = max(requests, 2)
    axis = list(range(1, min(requests, _EXACT_REQUESTS) + 1))
    while axis[-1] < requests:
        axis.append(min(requests, int(axis[-1] * 1.06) + 1))
    return np.asarray(axis, dtype=np.float64)


def below(axis: Real) -> NDArray[np.int32]:
    """For every whole number up to the axis' end the index of the value at or below it, but never
    the last.
    """
    whole = np.arange(int(axis[-1]) + 1)
    indices = np.searchsorted(axis, whole, side="right") - 1
    return np.clip(indices, 0, max(axis.size - 2, 0)).astype(np.int32)


def _sloped(table: Real) -> Real:
    """A table whose last slope is that of its upper half: times of passes rise in steps, and one
    may be the last.
    """
    end, middle = table.size - 2, (table.size - 2) // 2
    slope = (table[end] - table[middle]) / max(end - middle, 1)
    return np.concatenate([table[:-1], [table[end] + slope]])


def extended(table: Real, positions: Real) -> Real:
    """Values of a table at whole positions; beyond its end the last slope goes on."""
    low = np.minimum(positions.astype(np.int64), table.size - 2)
    return np.asarray(table[low] + (positions - low) * (table[low + 1] - table[low]))
