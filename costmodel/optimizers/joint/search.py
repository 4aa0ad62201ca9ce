"""Which design is the best of all, and which lie on the front, without looking at every one?

Nodes are looked at in the order of what their floors allow at most. One is left out where that is
less than what the best others reach, and where none of its batches could lie on the front: what is
found is what looking at every node would find. Leaves out simulation (`app.answers.optimize.confirmed`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from costmodel.answers.energy import idle_w
from costmodel.answers.fit import require_room, room
from costmodel.answers.positions import require_positions
from costmodel.answers.settings import build_setting
from costmodel.answers.workload import RequestTimes, mean_times
from costmodel.configuration import DeploymentNames
from costmodel.optimizers.allowed import Contender, Pick, drafting
from costmodel.optimizers.front import Front
from costmodel.optimizers.joint.evaluation import (
    LoadEvaluation,
    Node,
    budgeted,
    node_load,
    replicas_of,
    served_value,
    under_load,
)
from costmodel.optimizers.joint.floors import floor_of
from costmodel.optimizers.joint.objective import refusal
from costmodel.optimizers.joint.space import PLAIN, JointQuestion, Placement, batches_of
from costmodel.optimizers.layouts import BATCHES, Layout
from costmodel.optimizers.pricing import Evaluation
from costmodel.optimizers.unmet import NothingAllowedError, Unmet, disagreement
from costmodel.passes.ops import Array, Number
from costmodel.scheduler import Scheduler
from hardware_profiles.errors import InfeasibleError, InputError, UnknownNameError

RANKED_NODES = 8
Progress = Callable[[str, int, int], None]
DesignName = tuple[int, int, int, int]
"""Places of a design's node, shape, token budget and batch cap."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Design(Pick):
    """One design with its predicted performance; its configuration's batch is what a replica has in
    flight at most.

    Args:
        contender: a drafter on a placement.
        scheduler: that every copy of the model runs: the engine's, with the design's limits.
        replicas: that are run.
        requests_per_s: that all replicas finish at most.
        tpot_s: mean time per output token under the stated rate, or of busy replicas where none is
            stated.
        ttft_s: mean time to first token, of the same.
        e2e_s: mean time of a whole request, of the same.
        value: of the objective, whether or not limits are met.
        meets: whether it meets the limits.
        carries: whether it carries the stated rate; True where none is stated.
    """

    contender: Node
    scheduler: Scheduler
    replicas: int
    requests_per_s: float
    tpot_s: float
    ttft_s: float
    e2e_s: float
    value: float
    meets: bool
    carries: bool

    @property
    def devices(self) -> int:
        """Of all replicas."""
        return self.replicas * self.contender.placement.layout.devices

    @property
    def times(self) -> RequestTimes[float]:
        """Mean times of its requests."""
        return RequestTimes(ttft_s=self.ttft_s, tpot_s=self.tpot_s, e2e_s=self.e2e_s)

    def is_same(self, other: "Design") -> bool:
        """Whether both would be launched alike: drafter, placement, shape, limits and replicas."""
        return (
            self.contender is other.contender
            and self.acceptance is other.acceptance
            and (self.scheduler, self.replicas) == (other.scheduler, other.replicas)
        )

    def tokens_per_s_per_device(self, output_tokens: float) -> float:
        """Output tokens per second of one busy device."""
        return self.requests_per_s * output_tokens / self.devices


@dataclass(frozen=True, kw_only=True, slots=True)
class UnmetPlacement(Unmet):
    """A placement that cannot run: nothing was evaluated there, so that no candidate comes nearest.

    Args:
        placement: where.
        deployment: what would run there.
        error: why not.
    """

    placement: Placement
    deployment: DeploymentNames
    error: InputError | InfeasibleError


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class JointOptimum:
    """Answer of a joint search: one load ranks designs once, where batches and contexts rank theirs
    at every point and follow each other in schedules (`costmodel.optimizers.search.Optimum`).

    Args:
        ranked: the best design of the best nodes, best first, of equal ones that with the lower time
            per output token; the best node has its second-best shape, too.
        front: designs on the front, from the fastest for a user to the most of a device.
        unmet: placements that cannot run.
        considered: designs of all nodes that can run.
        evaluated: of them, designs that were evaluated.
        nodes: that can run.
        pruned: of them, nodes that were left out.
    """

    ranked: list[Design]
    front: list[Design]
    unmet: list[UnmetPlacement]
    considered: int
    evaluated: int
    nodes: int
    pruned: int


def joint_search(
    question: JointQuestion,
    *,
    ranked: int = RANKED_NODES,
    prune: bool = True,
    progress: Progress = lambda name, done, total: None,
) -> JointOptimum:
    """The best designs of a question, and its front.

    Args:
        question: the search space, load and limits.
        ranked: number of nodes whose best design is returned.
        prune: leave nodes out that cannot be among the best nor on the front; the answer is the
            same without.
        progress: called with what is done, how many nodes of how many.

    Raises:
        NothingAllowedError: no placement runs, or no design meets the limits.
        InputError: an unknown name, or what no placement can run.
    """
    if question.floor is not None and not question.contenders:
        raise NothingAllowedError([], disagreement(question.most_agreeing, question.floor))
    nodes, unmet = nodes_of(question)
    bounds = [_bound(question, node) for node in nodes]
    order = sorted(range(len(nodes)), key=lambda at: (-bounds[at][0], at))
    # of the nodes looked at, what their best design reaches, its time per token, and their place
    best: list[tuple[float, float, int]] = []
    front: Front[DesignName] = Front()
    seen: dict[int, LoadEvaluation] = {}
    for done, at in enumerate(order):
        progress("searching", done, len(order))
        value, x, y = bounds[at]
        if prune and len(best) >= ranked and value < best[ranked - 1][0] and front.covers(x, y):
            continue
        steady = nodes[at].steady(question.load)
        if prune and len(best) >= ranked:
            value, x, y = _bound(question, nodes[at], steady)
            if value < best[ranked - 1][0] and front.covers(x, y):
                continue
        seen[at] = evaluation = under_load(question, nodes[at], steady)
        top = evaluation.preferred(evaluation.value)
        reached = float(evaluation.value[top]), float(evaluation.seen.tpot_s[top])
        best = sorted([*best, (*reached, at)], key=lambda node: (-node[0], *node[1:]))
        _enter(question, front, at, evaluation)
    if not nodes and all(isinstance(one.error, InputError) for one in unmet):
        raise unmet[0].error
    if not best or best[0][0] == -np.inf:
        raise _no_design(question, unmet, seen)
    sizes = {
        at: len(node.candidates) * len(question.token_budgets) * int(node.is_cap.sum())
        for at, node in enumerate(nodes)
    }
    return JointOptimum(
        ranked=_ranked(question, seen, [at for value, _, at in best[:ranked] if value > -np.inf]),
        front=[
            design_at(question, seen[name[0]], name[1:], busy=True)
            for name in reversed(front.names)
        ],
        unmet=unmet,
        considered=sum(sizes.values()),
        evaluated=sum(sizes[at] for at in seen),
        nodes=len(nodes),
        pruned=len(nodes) - len(seen),
    )


def nodes_of(question: JointQuestion) -> tuple[list[Node], list[UnmetPlacement]]:
    """Every drafter on every placement that holds at least one request, and why other placements do
    not.
    """
    nodes: list[Node] = []
    unmet: list[UnmetPlacement] = []
    for placement in question.fitting_placements:
        try:
            nodes += _placed(question, placement)
        except UnknownNameError:
            raise
        except (InputError, InfeasibleError) as error:
            where = placement.configuration_of(question.question).deployment
            unmet.append(
                UnmetPlacement(
                    reason=str(error), placement=placement, deployment=where, error=error
                )
            )
    return nodes, unmet


def _placed(question: JointQuestion, placement: Placement) -> list[Node]:
    """What competes on a placement: plain decoding and drafters, or policies of masked blocks, which
    have no plain decoding beside them.

    Raises:
        InputError: a placement that the model cannot have, or an objective that is not known there.
        InfeasibleError: not even one request fits, or none of the batch caps does.
    """
    if question.floor is not None:
        if placement.layout != Layout(placement.layout.tensor):
            rule = "masked blocks are priced on one tensor-parallel group, without dp, ep and pp"
            raise InputError(rule, key="layouts", value=str(placement.layout))
        return [
            _node(question, placement, _on(placement, contender))
            for contender in question.contenders
        ]
    without = replace(question.question.without_drafter(), method="plain-decoding")
    plain = Contender(
        configuration=placement.configuration_of(without),
        setting=build_setting(placement.configuration_of(question.question)),
        candidates=[PLAIN],
    )
    alone = _node(question, placement, plain)
    return [alone, *(_beside(alone, contender) for contender in question.contenders)]


def _on(placement: Placement, contender: Contender) -> Contender:
    configuration = placement.configuration_of(contender.configuration)
    return replace(contender, configuration=configuration, setting=build_setting(configuration))


def _beside(plain: Node, contender: Contender) -> Node:
    """A drafter where a node decodes plainly, with the same batches."""
    placed = _on(plain.placement, contender)
    return replace(
        plain,
        configuration=placed.configuration,
        setting=placed.setting,
        candidates=placed.candidates,
        source=placed.source,
        floor=None if placed.refines else plain.floor,
    )


def _node(question: JointQuestion, placement: Placement, contender: Contender) -> Node:
    """A contender with every batch cap that memory holds with its first candidate, which takes no
    more than the others.

    Under a stated rate, smaller batches come with the caps.

    Raises:
        InputError: the objective is not known on such a device.
        InfeasibleError: not even one request fits, or none of the caps does.
    """
    setting, load = contender.setting, node_load(contender, question.load)
    if reason := refusal(question.maximise, setting.device):
        raise InputError(reason)
    require_positions(setting.target, question.load.longest_context, "prompt and output")
    space = room(
        budgeted(setting, question.token_budgets[0]),
        contender.candidates[0],
        context=load.longest_context,
    )
    require_room(setting, space)
    caps = batches_of(placement.layout, question.batch_caps)
    if caps[0] > space.largest_batch:
        raise InfeasibleError(
            f"memory holds {space.largest_batch} requests, fewer than any of the batch caps"
        )
    batch = caps = caps[caps <= space.largest_batch]
    if question.rate_stated:
        usual = batches_of(placement.layout, BATCHES)
        batch = np.union1d(caps, usual[usual < caps[-1]])
    return Node(
        configuration=contender.configuration,
        setting=setting,
        candidates=contender.candidates,
        source=contender.source,
        placement=placement,
        batch=batch,
        is_cap=np.isin(batch, caps),
        floor=None if contender.refines else floor_of(setting, load, batch),
    )


def _bound(
    question: JointQuestion, node: Node, steady: Evaluation | None = None
) -> tuple[float, Array, Array]:
    """What no design of a node exceeds: the objective, and by batch what a user and what a device
    gets.

    Prompts take no less than nothing, nor than their floor; steps, until they are evaluated, no less
    than theirs.
    """
    load, tokens = question.load, np.array([[a.tokens_per_step] for a in node.candidates])
    if node.refines or (steady is None and node.floor is None):
        everything = np.full(node.batch.shape, np.inf)
        return np.inf, everything, everything
    steps = load.output_tokens / (tokens if steady is not None else tokens.max())
    stay = decode = np.zeros(()) if steady is None else steps * steady.step_s
    watts: Number = idle_w(node.setting.device)
    if node.floor is not None:
        stay = np.maximum(stay, node.floor.stay_s(steps))
        decode = np.maximum(decode, node.floor.decode_s(steps))
        watts = node.floor.joules(node.setting.device, steps, stay) / stay
    rate, user = node.batch / stay, load.output_tokens / decode
    value = served_value(question, node, rate, replicas_of(question, node, rate), watts)
    tpot_s = 1.0 / user
    if question.rate_stated:  # a batch that is not filled is as fast as any smaller one
        tpot_s = np.minimum.accumulate(tpot_s, axis=-1)
    times = mean_times(ttft_s=np.zeros(()), tpot_s=tpot_s, output_tokens=load.output_tokens)
    meets = question.slo.met(times)
    best = float(np.max(np.where(meets, value, -np.inf)))
    device = rate * load.output_tokens / node.placement.layout.devices
    return best * (1.0 + 1e-9), user.reshape(-1), device.reshape(-1)


def _enter(
    question: JointQuestion, front: Front[DesignName], at: int, evaluation: LoadEvaluation
) -> None:
    shape, budget, cap = np.nonzero(evaluation.fits)
    if not shape.size:
        return
    speeds, fits = evaluation.busy, evaluation.fits
    devices = evaluation.node.placement.layout.devices
    x, y = (
        1.0 / speeds.tpot_s[fits],
        speeds.requests_per_s[fits] * question.load.output_tokens / devices,
    )
    front.add(
        x,
        y,
        [(at, *name) for name in zip(shape.tolist(), budget.tolist(), cap.tolist(), strict=True)],
    )


def _ranked(
    question: JointQuestion, seen: dict[int, LoadEvaluation], best: list[int]
) -> list[Design]:
    """The best design of each of these nodes, and the next-best shape of the first of them."""
    designs = []
    for at in best:
        values = seen[at].value.copy()
        for _ in range(2 if at == best[0] else 1):
            if np.isfinite(values).any():
                place = seen[at].preferred(values)
                designs.append(design_at(question, seen[at], place))
                values[place[0]] = -np.inf
    return sorted(designs, key=lambda design: (-design.value, design.tpot_s))


def design_at(
    question: JointQuestion,
    evaluation: LoadEvaluation,
    name: tuple[int, ...],
    *,
    busy: bool = False,
) -> Design:
    """A design of an evaluated node.

    Args:
        question: the search space, load and limits.
        evaluation: designs of the node.
        name: places of its shape, token budget and batch cap.
        busy: times are those of busy replicas, whatever rate is stated.
    """
    speeds = evaluation.busy if busy else evaluation.seen
    times = mean_times(
        ttft_s=float(speeds.ttft_s[name]),
        tpot_s=float(speeds.tpot_s[name]),
        output_tokens=question.load.output_tokens,
    )
    shape, _, cap = name
    node, a = evaluation.node, evaluation.node.candidates[shape]
    batch, layout = int(node.batch[cap]), node.placement.layout
    scheduler = replace(
        node.setting.engine.scheduler or Scheduler(),
        token_budget=question.token_budgets[name[1]],
        max_requests=batch // layout.data,
    )
    chosen = replace(
        drafting(node.configuration, a),
        max_batch=batch,
        token_budget=scheduler.token_budget,
        batch=batch,
        context=round(node_load(node, question.load).decode_context),
    )
    replicas = int(evaluation.replicas[name])
    return Design(
        contender=node,
        acceptance=a,
        configuration=chosen,
        scheduler=scheduler,
        replicas=replicas,
        requests_per_s=replicas * float(evaluation.busy.requests_per_s[name]),
        tpot_s=times.tpot_s,
        ttft_s=times.ttft_s,
        e2e_s=times.e2e_s,
        value=float(evaluation.unlimited[name]),
        meets=bool(evaluation.meets[name]),
        carries=bool(evaluation.carries[name]),
    )


def _no_design(
    question: JointQuestion, unmet: list[UnmetPlacement], seen: dict[int, LoadEvaluation]
) -> NothingAllowedError[UnmetPlacement]:
    if not seen:
        return NothingAllowedError(unmet)
    excess = min(
        float(np.where(evaluation.carries, evaluation.excess(question.slo), np.inf).min())
        for evaluation in seen.values()
    )
    return NothingAllowedError(unmet, _missed(question, seen), excess)


def _missed(question: JointQuestion, seen: dict[int, LoadEvaluation]) -> str:
    """What the designs that fit miss."""
    fitting = [evaluation for evaluation in seen.values() if evaluation.fits.any()]
    if not fitting:
        return (
            "no design fits: every batch cap or token budget is beyond what memory and passes hold"
        )
    served = [
        (evaluation.replicas * evaluation.busy.requests_per_s)[evaluation.fits].max()
        for evaluation in fitting
    ]
    most, rate = question.utilisation * float(max(served)), question.load.requests_per_s
    if question.rate_stated and most < rate:
        return (
            f"{rate:.4g} requests/s: no design carries them on {question.most_devices} devices of a"
            f" kind, at most {most:.4g}"
        )
    least = {
        "TTFT": min(float(evaluation.seen.ttft_s[evaluation.fits].min()) for evaluation in fitting),
        "TPOT": min(float(evaluation.seen.tpot_s[evaluation.fits].min()) for evaluation in fitting),
    }
    if question.slo.e2e_s is not None:
        least["E2E"] = min(float(own.times.e2e_s[own.fits].min()) for own in fitting)
    words = ", ".join(f"{name} {seconds * 1e3:.3g} ms" for name, seconds in least.items())
    return (
        f"SLO: no design meets the limits ({question.slo.words}); the least means of any: {words}"
    )
