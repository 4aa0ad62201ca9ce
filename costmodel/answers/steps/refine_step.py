"""What does a pass over masked blocks cost, on average over the passes that commit?

Full passes over prompt and canvas, passes over a part of them on cached values, renewals, passes
that store, another model beside. Leaves out how many tokens a pass commits and how often passes of
each kind run (`costmodel.laws.refining`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from costmodel.answers.steps.step import StepCost, total_cost
from costmodel.architectures.library import named_model
from costmodel.drafters.drafter import Drafter
from costmodel.drafters.pass_costs import WeightedPass
from costmodel.engines.record.overhead import Overhead
from costmodel.laws.refining import group_sizes, live_tokens, pass_counts, refine_of, waiting_ratio
from costmodel.method import Method
from costmodel.pace import GROWING_COMMITS, Refine
from costmodel.passes.forward import Deployment, PassCost, pass_cost
from costmodel.passes.memory import Footprint, activation_bytes, kv_bytes, weight_bytes
from costmodel.passes.ops import Array, Number
from costmodel.passes.totals import Tally
from costmodel.passes.transformed_operations import stored_logits


class _Pass(NamedTuple):
    """Passes of one kind.

    Args:
        ratio: of them to those that commit.
        rows: query tokens of a sequence.
        cached: tokens of it that are read.
        copies: sequences of a request.
        is_full: over prompt and canvas.
        renews: values that later passes read, with the target's own launches; others are launched
            by the code of the method.
    """

    ratio: Array
    rows: Number
    cached: Number
    copies: int
    is_full: bool = False
    renews: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class _Canvas:
    """Tokens per request of the passes of a method.

    Args:
        method: that refines blocks.
        prompt: tokens before the canvas.
        tokens: that a pass commits.
    """

    method: Method
    prompt: Array
    tokens: float

    @property
    def width(self) -> float:
        """Tokens of the canvas."""
        return float(max(refine_of(self.method).canvas_tokens, self.method.shape.nodes))

    @property
    def whole(self) -> Array:
        """Tokens of prompt and canvas."""
        return self.prompt + self.width

    def own(self) -> Iterator[tuple[float, Number, Array]]:
        """(share, rows, cached tokens) of the passes that renew nothing."""
        r, live = refine_of(self.method), min(live_tokens(self.method), self.width)
        along = self.tokens if r.stores_along else 0.0
        if r.forward == "group" and r.commit in GROWING_COMMITS:
            yield from self._groups(along > 0.0)
            return
        own = {
            "canvas": self.width,
            "suffix": (self.width + live) / 2.0
            + along,  # from the first open block on, over its mean place
            "block": live + along,
            "group": self.tokens + along,  # of a canvas that is half done
        }[r.forward]
        rows = np.minimum(own * r.computed_ratio, self.whole)
        behind = (self.width - self.tokens) / 2.0 - along
        cached = self.prompt + max(behind, 0.0) if r.forward == "group" else self.whole - rows
        yield 1.0, rows, np.asarray(cached)

    def runs(self, waits: Number = 1.0) -> Array:
        """Passes of all kinds over those that commit.

        Args:
            waits: passes of requests that wait for each other, over those of one alone.
        """
        return np.asarray(sum(self._counts(waits).values()) / self._committing)

    def passes(self, waits: Number = 1.0) -> Iterator[_Pass]:
        """The passes of every kind that runs.

        Args:
            waits: as of `runs`.
        """
        r, block = refine_of(self.method), float(self.method.shape.nodes)
        ratio = {kind: count / self._committing for kind, count in self._counts(waits).items()}
        if np.any(ratio["full"] > 0.0):
            drafts = r.commit == "self_verified" and r.forward != "full"
            # a pass over prompt and canvas confirms no drafts beside each other
            yield _Pass(ratio["full"], self.whole, 0.0, 1 if drafts else r.copies, is_full=True)
        if np.any(ratio["canvas"] > 0.0):
            yield _Pass(ratio["canvas"], self.width, self.prompt, r.copies)
        if np.any(ratio["own"] > 0.0):
            for share, rows, cached in self.own():
                yield _Pass(share * ratio["own"], rows, cached, r.copies, renews=False)
        if r.closing_passes:
            yield _Pass(ratio["closing"], block, self.whole - block, r.copies)

    @property
    def _committing(self) -> float:
        """Passes of a block that commit for one request."""
        return float(self.method.shape.nodes) / self.tokens

    def _counts(self, waits: Number) -> Mapping[str, Array]:
        return pass_counts(self.method, self._committing * waits)

    def _groups(self, along: bool) -> Iterator[tuple[float, Number, Array]]:
        """The same of groups that grow, one after the other."""
        sizes = group_sizes(self.method, max(round(self.width / self.tokens), 1))
        before = stored = 0
        for size in sizes:
            rows = size + (before - stored if along else 0)
            yield 1.0 / len(sizes), float(rows), self.prompt + float(stored if along else before)
            stored = before
            before += size


def refine_step(
    d: Deployment,
    drafter: Drafter,
    overhead: Overhead,
    *,
    tokens_per_step: float,
    batch: Number,
    context: Number,
) -> StepCost:
    """The mean pass over masked blocks: what all passes cost together, over those that commit for
    one request.

    Args:
        d: target, device and how they run.
        drafter: of a method that refines blocks; it drafts nothing.
        overhead: the engine's share of a pass.
        tokens_per_step: tokens that a pass commits on average, >= 1.
        batch: requests. Where they wait for each other, a pass of one that waits is billed to the
            others.
        context: tokens per request before the canvas.

    Raises:
        InputError: a method that does not refine, an auxiliary model that is not known.

    Reference: Wu et al. 2025, "Fast-dLLM" (arXiv:2505.22618), section 3.2, for the caches of a
    block's two sides; Ma et al. 2025, "dKV-Cache" (arXiv:2505.15781), section 3.3, for their
    renewal; Liu et al. 2025, "dLLM-Cache" (arXiv:2506.06295), section 3, for responses that are
    computed in part.
    """
    m = drafter.method
    canvas = _Canvas(method=m, prompt=np.asarray(context, dtype=np.float64), tokens=tokens_per_step)
    requests, waits = (
        np.asarray(batch, dtype=np.float64),
        waiting_ratio(m, tokens_per_step, batch),
    )
    passes, launched = list(canvas.passes(waits)), _launched(d, refine_of(m))
    verify: list[WeightedPass] = [
        (
            run.ratio,
            pass_cost(
                d if run.renews else launched,
                batch=requests * run.copies,
                query_tokens=run.rows,
                context=run.cached,
                prefill=run.is_full,
            ),
        )
        for run in passes
    ]
    verify += [(1.0, cost) for cost in _beside(d, m, batch=batch, prompt=canvas.prompt)]
    cost = total_cost([], verify, drafter, overhead, speculates=np.asarray(False), requests=batch)
    more = cost.overhead_s * (canvas.runs(waits) - 1.0)  # every pass is an engine's step of its own
    return replace(cost, overhead_s=cost.overhead_s + more, launch_s=cost.launch_s + more)


def pass_rows(m: Method, *, tokens_per_step: float, context: float) -> float:
    """Query tokens of a request's pass, in all its sequences: the mean, or the most of any where
    requests begin their blocks together.

    Args:
        m: a method that refines blocks.
        tokens_per_step: tokens that a pass commits on average, >= 1.
        context: tokens before the canvas.

    Raises:
        InputError: a method that does not refine.
    """
    canvas = _Canvas(method=m, prompt=np.asarray(context, dtype=np.float64), tokens=tokens_per_step)
    passes = list(canvas.passes())
    if m.batch.ragged != "split":
        return max(float(run.rows * run.copies) for run in passes)
    return float(sum(run.ratio * run.rows * run.copies for run in passes) / canvas.runs())


def _launched(d: Deployment, r: Refine) -> Deployment:
    """The deployment as the code of a method launches passes that renew nothing."""
    return replace(
        d,
        host_layer_s=d.host_layer_s * r.launch_ratio,
        host_waits=d.host_waits or r.waits_in_layers,
    )


def _beside(d: Deployment, m: Method, *, batch: Number, prompt: Array) -> Iterator[PassCost]:
    """What runs in every pass beside the target: another model over the same tokens, values of the
    vocabulary.
    """
    r, live = refine_of(m), live_tokens(m)
    if r.auxiliary:
        other = replace(d, architecture=named_model(r.auxiliary))
        yield pass_cost(other, batch=batch, query_tokens=live, context=prompt)
    if r.vocab_state_bytes:
        tally = Tally()
        values = (
            np.asarray(batch, dtype=np.float64) * live * d.architecture.vocab / d.tensor_parallel
        )
        tally.add(stored_logits(d, values * r.vocab_state_bytes))
        yield tally.cost()


def refine_footprint(
    d: Deployment, m: Method, *, batch: Number, context: Number, page_tokens: int
) -> Footprint:
    """Bytes on each device: weights, caches of prompt and canvas, the largest pass with its logits.

    Args:
        d: target, device and how they run.
        m: a method that refines blocks. Where every pass is full, nothing is cached.
        batch: requests.
        context: tokens per request before the canvas.
        page_tokens: of a page of the cache, to which every request is rounded up.

    Raises:
        InputError: a method that does not refine, an auxiliary model that is not known.
    """
    r, b = refine_of(m), np.asarray(batch, dtype=np.float64)
    canvas = _Canvas(
        method=m, prompt=np.asarray(context, dtype=np.float64), tokens=r.tokens_per_pass
    )
    share, form = d.tensor_parallel, d.precision
    shape = {"tensor_parallel": share, "page_tokens": page_tokens}
    held = np.zeros(np.broadcast_shapes(np.shape(batch), np.shape(context)))
    if r.forward != "full":
        held = held + kv_bytes(
            d.architecture, form, batch=b * r.copies, context=canvas.whole, **shape
        )
    weights = weight_bytes(d.architecture, form, share)
    if r.auxiliary:
        other = named_model(r.auxiliary)
        weights += weight_bytes(other, form, share)
        held = held + kv_bytes(other, form, batch=b, context=canvas.whole, **shape)
    live = live_tokens(m)
    held = held + b * live * d.architecture.vocab * r.vocab_state_bytes / share
    widest = canvas.whole * (1 if r.commit == "self_verified" and r.forward != "full" else r.copies)
    if r.forward != "full" and not (r.full_passes or r.full_every):
        rows = [float(np.max(size)) for _, size, _ in canvas.own()]
        widest = np.asarray(max(*rows, canvas.width if r.canvas_every else 0.0) * r.copies)
    return Footprint(
        weights_bytes=weights,
        cache_bytes=np.asarray(held),
        pass_bytes=np.asarray(activation_bytes(d.architecture, form, tokens=b * widest) / share),
    )
