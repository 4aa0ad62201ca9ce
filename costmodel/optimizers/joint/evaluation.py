"""What do all designs of a node reach, and how much at best?

A node is a drafter on a placement. Its draft shapes, token budgets and batch caps are evaluated
together, as arrays of shape [shapes, budgets, caps]. Leaves out which nodes are looked at
(`search`) and how sure the numbers are (`comparison`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from costmodel.answers.energy import idle_w, prefill_draw, step_watts
from costmodel.answers.estimate import Setting, step_cost
from costmodel.answers.fit import Room, rooms
from costmodel.answers.loads import Curve, Loaded, least_replicas
from costmodel.answers.replicas import (
    ReplicaSpeeds,
    busy_replica,
    computed_tokens,
    curve_of,
    most_sharing,
    own_load,
    step_rows,
)
from costmodel.answers.ties import SAME, preferred
from costmodel.answers.workload import Limits, Load, RequestTimes
from costmodel.laws.acceptance import Acceptance
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.joint.floors import Floor
from costmodel.optimizers.joint.objective import PER_COST, objective_value
from costmodel.optimizers.joint.space import JointQuestion, Placement
from costmodel.optimizers.pricing import Evaluation, evaluate
from costmodel.passes.ops import Array, Mask, Number


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Node(Contender):
    """A drafter on a placement, whose candidates are the shapes that it may draft, or plain
    decoding there.

    Args:
        placement: where.
        batch: requests in flight of a replica, rising: those of the batch caps, and further ones
            that say what a replica does under a load.
        is_cap: which of them are those of batch caps.
        floor: of the placement; None where there is none.
    """

    placement: Placement
    batch: Array
    is_cap: Mask
    floor: Floor | None

    @property
    def drafts(self) -> bool:
        """Whether it is a drafter's, and not that of plain decoding."""
        return self.candidates[0].draft_tokens > 0

    def up_to(self, batch: float) -> "Node":
        """The node with no larger batches than this one."""
        count = int((self.batch <= batch).sum())
        floor = None if self.floor is None else self.floor.first(count)
        return replace(self, batch=self.batch[:count], is_cap=self.is_cap[:count], floor=floor)

    def steady(self, load: Load) -> Evaluation:
        """Its shapes with every batch, arrays of shape [shapes, caps]."""
        return evaluate(self, batch=self.batch, context=node_load(self, load).decode_context)

    def with_budget(self, token_budget: int) -> Setting:
        """The setting whose engine sets buffers up for iterations of so many tokens."""
        return budgeted(self.setting, token_budget)


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadEvaluation:
    """Designs of a node under a load; arrays of shape [shapes, budgets, caps].

    Args:
        node: whose designs.
        busy: a replica that is kept busy.
        output_tokens: of a request, on average.
        seen: what requests see: of the replicas under the stated rate, or of busy ones where none
            is stated.
        replicas: that are run.
        unlimited: of the objective, whether or not a design fits and meets the limits.
        fits: where memory and token budget hold it.
        carries: where the replicas carry the stated rate; everywhere where none is stated.
        meets: where it also meets the limits, and carries a stated rate that is limited or whose
            price is asked about.
    """

    node: Node
    busy: ReplicaSpeeds
    output_tokens: float
    seen: Loaded
    replicas: Array
    unlimited: Array
    fits: Mask
    carries: Mask
    meets: Mask

    @property
    def value(self) -> Array:
        """Of the objective; -inf where a design does not fit or misses a limit."""
        return np.where(self.meets, self.unlimited, -np.inf)

    @property
    def times(self) -> RequestTimes[Array]:
        """Mean times of the requests."""
        return self.seen.times(self.output_tokens)

    def preferred(self, values: Array) -> tuple[int, ...]:
        """The place of the design with the highest of some values; of equal ones that of which
        users see the shortest times, then that with the most to spare.

        Args:
            values: of the designs, some of them finite.
        """
        equal = values >= values.max() - (1.0 - SAME) * abs(values.max())
        spare = 1.0 / self.busy.requests_per_s
        times = (self.seen.tpot_s, self.seen.ttft_s, spare)
        return preferred(equal, *(np.broadcast_to(time, equal.shape) for time in times))

    def excess(self, slo: Limits) -> Array:
        """By how much the limits would have to be multiplied to be met; infinite where a design
        does not fit.

        Args:
            slo: limits on means.
        """
        return np.where(self.fits, slo.excess(self.times), np.inf)


def node_load(contender: Contender, load: Load) -> Load:
    """The load as the steps of a contender meet it.

    Args:
        contender: with what it drafts, or commits of masked blocks, first.
        load: requests to serve.
    """
    return own_load(contender.setting, contender.candidates[0], load)


def budgeted(setting: Setting, token_budget: int) -> Setting:
    """A setting whose engine sets buffers up for iterations of so many tokens.

    Args:
        setting: target, device, drafter and engine.
        token_budget: most query tokens of an iteration.
    """
    engine = setting.engine
    if engine.scheduler is None:
        return setting
    return replace(
        setting,
        engine=replace(engine, started=replace(engine.scheduler, token_budget=token_budget)),
    )


def under_load(
    question: JointQuestion, node: Node, steady: Evaluation | None = None
) -> LoadEvaluation:
    """All designs of a node: what the load makes of its shapes in steady batches.

    Args:
        question: the search space, load and limits.
        node: a drafter on a placement.
        steady: its shapes with every batch, where they are evaluated already.
    """
    steps = (steady or node.steady(question.load)).step_s
    budgets = np.array(question.token_budgets, dtype=np.float64)[None, :, None]
    curve, busy = law(question, node, steps[:, None, :], budgets)
    copies = node.placement.layout.data
    load = node_load(node, question.load)
    rows = np.array([step_rows(node.setting, a, load.decode_context) for a in node.candidates])
    most = np.array([[space.largest_batch for space in row] for row in _rooms(question, node)])[
        :, :, None
    ]
    tokens = np.array([a.tokens_per_step for a in node.candidates])[:, None, None]
    room_for = most_sharing(load, rows[:, None, None], budgets, load.output_tokens / tokens)
    fits = node.is_cap & (node.batch <= most) & (node.batch / copies <= room_for)
    replicas = _replicas(question, node, curve, busy.requests_per_s.shape)
    seen, carries = seen_by_requests(question, node, curve, busy, replicas)
    within = question.slo.met(seen.times(question.load.output_tokens))
    # a part of a load would be served for less, and within limits that the rest of it misses
    whole = question.rate_stated and (question.slo.limited or question.maximise in PER_COST)
    meets = fits & within & (carries | (not whole))
    watts: Number = 0.0
    if question.maximise == "tokens-per-joule":
        watts = node_watts(question, node, node.candidates, steps[:, None, :], busy.requests_per_s)
    return LoadEvaluation(
        node=node,
        busy=busy,
        output_tokens=question.load.output_tokens,
        seen=seen,
        replicas=replicas,
        unlimited=served_value(question, node, busy.requests_per_s, replicas, watts),
        fits=fits,
        carries=carries,
        meets=meets,
    )


def _replicas(question: JointQuestion, node: Node, curve: Curve, shape: tuple[int, ...]) -> Array:
    """Replicas that are run: the fewest that carry a stated rate within the limits, else all that
    the devices hold.
    """
    held = float(question.most_devices // node.placement.layout.devices)
    if not question.rate_stated:
        return np.full(shape, held)
    least = least_replicas(
        curve,
        question.load,
        node.batch,
        question.slo,
        utilisation=question.utilisation,
        most=int(held),
    )
    return np.where(np.isfinite(least), least, held)


def seen_by_requests(
    question: JointQuestion, node: Node, curve: Curve, busy: ReplicaSpeeds, replicas: Array
) -> tuple[Loaded, Mask]:
    """What requests see of so many replicas, and whether these carry the stated rate; of busy ones
    where none is stated.

    Args:
        question: the search space, load and limits.
        node: a drafter on a placement.
        curve: what a replica does at every batch.
        busy: a replica that is kept busy.
        replicas: that are run.
    """
    shape = busy.requests_per_s.shape
    if not question.rate_stated:
        return Loaded(np.broadcast_to(node.batch, shape), *busy[1:]), np.ones(shape, dtype=np.bool_)
    share = question.load.requests_per_s / replicas
    planned = question.utilisation * busy.requests_per_s * (1.0 + 1e-9)
    return curve.under(np.minimum(share, planned), node.batch), np.asarray(share <= planned)


def law(
    question: JointQuestion,
    node: Node,
    step_s: Array,
    budgets: Array,
    *,
    tokens_per_step: Array | None = None,
    slower: Number = 1.0,
    shapes: Sequence[Acceptance] | None = None,
) -> tuple[Curve, ReplicaSpeeds]:
    """What a replica does at every batch, and kept busy, never faster than its floor.

    Arrays broadcast to [shapes, budgets, batches].

    Args:
        question: the search space, load and limits.
        node: a drafter on a placement.
        step_s: of decode steps.
        budgets: most query tokens of an iteration.
        tokens_per_step: in place of those of the shapes.
        slower: ratio by which all passes take longer.
        shapes: in place of those of the node.
    """
    drafted = node.candidates if shapes is None else shapes
    load, along = question.load, (-1, *(1,) * (budgets.ndim - 1))
    context = node_load(node, load).decode_context
    rows = np.array([step_rows(node.setting, a, context) for a in drafted])
    tokens = tokens_per_step
    if tokens is None:
        tokens = np.array([a.tokens_per_step for a in drafted]).reshape(along)
    prompts, speeds = busy_replica(
        node.setting,
        node.candidates[0],
        load,
        batch=node.batch,
        step_s=step_s,
        rows=rows.reshape(along),
        tokens_per_step=tokens,
        token_budget=budgets,
        slower=slower,
    )
    if node.floor is not None:
        steps, ratio = load.output_tokens / tokens, np.asarray(slower)
        most = node.batch / (node.floor.stay_s(steps) * np.minimum(ratio, 1.0))
        least = node.floor.decode_s(steps) * np.minimum(ratio, 1.0) / load.output_tokens
        speeds = ReplicaSpeeds(
            np.minimum(speeds.requests_per_s, most), np.maximum(speeds.tpot_s, least), speeds.ttft_s
        )
    curve = curve_of(node.setting, node.batch, step_s * np.asarray(slower), prompts, speeds)
    if question.rate_stated:  # a batch that is not filled is as fast as a smaller one
        speeds = speeds._replace(requests_per_s=curve.highest_per_s(node.batch))
    return curve, speeds


def replicas_of(question: JointQuestion, node: Node, requests_per_s: Array) -> Array:
    """Replicas that are run: all that the devices hold, or the fewest that carry the stated rate.

    Args:
        question: the search space, load and limits.
        node: whose layout counts.
        requests_per_s: that one replica finishes.
    """
    held = question.most_devices // node.placement.layout.devices
    if not question.rate_stated:
        return np.full(np.shape(requests_per_s), float(held))
    return np.minimum(np.maximum(_needed(question, requests_per_s), 1.0), float(held))


def _needed(question: JointQuestion, requests_per_s: Array) -> Array:
    """Replicas that carry the stated rate."""
    return np.asarray(
        np.ceil(question.load.requests_per_s / (question.utilisation * requests_per_s) - 1e-9)
    )


def served_value(
    question: JointQuestion, node: Node, requests_per_s: Array, replicas: Array, watts: Number
) -> Array:
    """The objective of so many replicas.

    Args:
        question: the search space, load and limits.
        node: a drafter on a placement.
        requests_per_s: that one replica finishes.
        replicas: that are run.
        watts: mean draw of a busy device; counts for joules.
    """
    served = replicas * requests_per_s
    if question.rate_stated:
        served = np.minimum(question.load.requests_per_s, question.utilisation * served)
        idle = 1.0 - served / (replicas * requests_per_s)
        watts = (1.0 - idle) * watts + idle * idle_w(node.setting.device)
    return objective_value(
        question.maximise,
        node.setting.device,
        requests_per_s=served,
        output_tokens=question.load.output_tokens,
        devices=replicas * node.placement.layout.devices,
        watts=watts,
    )


def _rooms(question: JointQuestion, node: Node) -> list[list[Room]]:
    """Memory by shape and token budget; chains of as many draft tokens take the same."""
    settings = [node.with_budget(budget) for budget in question.token_budgets]
    rooms_by_length: dict[int, list[Room]] = {}
    for a in node.candidates:
        if a.draft_tokens not in rooms_by_length:
            rooms_by_length[a.draft_tokens] = rooms(
                settings, a, context=node_load(node, question.load).longest_context
            )
    return [rooms_by_length[a.draft_tokens] for a in node.candidates]


def node_watts(
    question: JointQuestion,
    node: Node,
    shapes: Sequence[Acceptance],
    step_s: Array,
    requests_per_s: Array,
) -> Array:
    """Mean draw of a busy device, W: decode steps for their share of the time, prompts for the
    rest.

    Args:
        question: the search space, load and limits.
        node: a drafter on a placement.
        shapes: what is drafted, along the first axis of the other arrays, or one.
        step_s: of decode steps; broadcasts with the rates.
        requests_per_s: that a replica finishes.
    """
    load, setting, axes = node_load(node, question.load), node.setting, (1,) * (step_s.ndim - 2)
    costs = [step_cost(setting, a, batch=node.batch, context=load.decode_context) for a in shapes]
    decode_w = np.stack(
        [np.broadcast_to(step_watts(setting, cost), node.batch.shape) for cost in costs]
    )
    prompt_w = prefill_draw(setting, prompt_tokens=load.mean_prompt_tokens).watts
    computed = computed_tokens(setting, node.candidates[0], load.output_tokens)
    steps = np.array([computed / a.tokens_per_step for a in shapes]).reshape(-1, *axes, 1)
    share = np.clip(steps * step_s * requests_per_s / node.batch, 0.0, 1.0)
    return np.asarray(
        share * decode_w.reshape(-1, *axes, node.batch.size) + (1.0 - share) * prompt_w
    )
