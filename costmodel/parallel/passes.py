"""What does a pass cost when its model is spread over devices by a plan?

One device's operations by `forward`, with requests dealt out to data copies, tokens to the context
group and experts to the expert group; what the devices then exchange; and the stages of the
pipeline one after another. Leaves out the host, overlap of exchanges with other layers, and
schedules that mix several batches within a stage.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from costmodel.architectures.architecture import Block
from costmodel.parallel import context as tokens_apart
from costmodel.parallel.collectives import all_reduce, point_to_point
from costmodel.parallel.experts import busiest_work, exchange
from costmodel.parallel.pipeline import PipelineTime, pipeline_time, prompt_time, round_time
from costmodel.parallel.plan import ParallelPlan, stage_layers
from costmodel.passes import kernels, ops
from costmodel.passes.forward import Deployment, Logits, Operation, pass_cost
from costmodel.passes.kernels import Timing
from costmodel.passes.ops import Array, Number, Work
from hardware_profiles.errors import InputError

Ring = Literal["pass_kv", "pass_q", "cheaper"]
Combination = Literal["tree", "ring"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanCost:
    """Cost of one batch's pass over all stages; arrays broadcast over the arguments of `plan_cost`.

    Args:
        seconds: by operation as in `PassCost`, and `exchange` (tokens to experts and back),
            `context` (what the context group tells each other, as far as nothing hides it) and
            `transfer` (from stage to stage).
        pipeline: latency of the batch, and the interval between batches once the pipeline is full.
        operations: of one device of each stage, in turn.
    """

    seconds: Mapping[str, Array]
    pipeline: PipelineTime
    operations: tuple[Operation, ...]

    @property
    def total_s(self) -> Array:
        """Seconds of one batch's way through all stages."""
        return np.asarray(sum(self.seconds.values(), start=np.zeros(())))

    def step_s(self, micro_batches: Number = 1) -> Array:
        """Seconds in which each of `micro_batches` batches in flight advances by one pass."""
        return round_time(self.pipeline, micro_batches)

    def prompt_s(self, micro_batches: Number = 1) -> Array:
        """Seconds until the last of `micro_batches` equal pieces of a prompt has passed."""
        return prompt_time(self.pipeline, micro_batches)


def plan_cost(
    deployment: Deployment,
    plan: ParallelPlan,
    *,
    batch: Number,
    query_tokens: Number,
    context: Number,
    logits: Logits = "all",
    prefill: bool = False,
    ring: Ring = "cheaper",
    combination: Combination = "tree",
) -> PlanCost:
    """Cost of a pass of `batch` requests over all data copies, with `query_tokens` new tokens each.

    A plan of ones costs what `forward.pass_cost` says. The fullest data copy counts: ⌈batch / data⌉
    requests. In a decode or verify pass every device of a context group runs all tokens' linear
    layers and reads its share of the cache: at once for all requests where partial results are
    combined in a tree; in a ring turn by turn, each for the requests whose queries have come round.
    In a prefill it takes its share of the new tokens.

    Args:
        deployment: model and device; its tensor-parallel degree is replaced by the plan's, and what
            was measured of whole passes on one device does not count.
        plan: how the model is spread.
        batch: requests of one pass, of all data copies together, > 0.
        query_tokens: new tokens per request, > 0.
        context: cached tokens per request, >= 0.
        logits: rows that reach the output head.
        prefill: use the prompt-processing form of attention, and rings over the context group.
        ring: what a ring over the context group passes on in a prefill.
        combination: how a context group joins its partial results while decoding.

    Raises:
        InputError: a plan that does not divide the model, recurrent layers with a context group, or
            a layer schedule with whole experts.

    >>> from costmodel.architectures.library import load_model
    >>> from costmodel.passes.precision import Precision
    >>> from hardware_profiles.loader import load_device
    >>> d = Deployment(architecture=load_model("llama-3-70b"), device=load_device("h100-sxm"), precision=Precision())
    >>> cost = plan_cost(d, ParallelPlan(tensor=4, pipeline=2), batch=32, query_tokens=1, context=4096)
    >>> bool(cost.step_s(2) >= cost.total_s), sorted(set(cost.seconds) - {"gemm", "attention", "elementwise"})
    (True, ['allreduce', 'head', 'sampler', 'transfer'])
    """
    plan.check(deployment.architecture)
    if plan.context > 1 and deployment.architecture.is_recurrent:
        raise InputError(
            "recurrent layers cannot share a request's tokens", key="cp", value=plan.context
        )
    if plan.expert > 1 and deployment.schedule is not None:
        raise InputError(
            "layers that some tokens skip cannot have whole experts", key="ep", value=plan.expert
        )
    fidelity = "calibrated" if deployment.fidelity == "measured" else deployment.fidelity
    alone = replace(deployment, tensor_parallel=plan.tensor, fidelity=fidelity)
    spread = _Spread(alone, plan, prefill, ring, combination)
    b, n, c = (np.asarray(x, dtype=np.float64) for x in (batch, query_tokens, context))
    mine = b if plan.data == 1 else np.ceil(b / plan.data)
    inner: list[Operation] = []
    for block, count in deployment.architecture.blocks:
        inner += [
            op._replace(calls=count * op.calls) for op in spread.layer(block, mine, n, c, logits)
        ]
    outer = list(spread.forward((), mine, n, c, logits))
    if plan.pipeline == 1:
        return _joined([*inner, *outer], [_total([*inner, *outer])], 0.0)
    shares = [
        layers / deployment.architecture.layers
        for layers in stage_layers(deployment.architecture.layers, plan.pipeline)
    ]
    layers_s, end_s = _total(inner), _total(outer)
    stages = [
        layers_s * share + (end_s if stage == plan.pipeline - 1 else 0.0)
        for stage, share in enumerate(shares)
    ]
    rows = mine * (n / plan.context if prefill else n)
    message = rows * deployment.architecture.hidden * deployment.precision.residual_bytes
    return _joined(
        [*inner, *outer],
        stages,
        point_to_point(plan.message_link(deployment.device, plan.devices), message),
    )


def _total(operations: list[Operation]) -> Array:
    return np.asarray(sum((op.calls * op.timing.seconds for op in operations), start=np.zeros(())))


def _joined(operations: list[Operation], stages: list[Array], hop_s: Number) -> PlanCost:
    seconds: dict[str, Array] = {}
    for op in operations:
        seconds[op.name] = seconds.get(op.name, np.zeros(())) + op.calls * op.timing.seconds
    if len(stages) > 1:
        seconds["transfer"] = np.asarray((len(stages) - 1) * np.asarray(hop_s))
    return PlanCost(
        seconds=seconds, pipeline=pipeline_time(stages, hop_s), operations=tuple(operations)
    )


@dataclass(frozen=True, slots=True)
class _Spread:
    """One device's part of a layer, and what it tells the others."""

    deployment: Deployment
    plan: ParallelPlan
    prefill: bool
    ring: Ring
    combination: Combination

    def forward(
        self,
        blocks: tuple[tuple[Block, int], ...],
        b: Array,
        n: Array,
        context: Array,
        logits: Logits,
    ) -> tuple[Operation, ...]:
        """Operations of the given blocks and, last, of the output head."""
        architecture = replace(self.deployment.architecture, blocks=blocks)
        deployment = replace(self.deployment, architecture=architecture)
        shape = {"batch": b, "query_tokens": n, "context": context}
        return tuple(pass_cost(deployment, **shape, logits=logits, prefill=self.prefill).operations)

    def alone(
        self, block: Block, b: Array, n: Array, context: Array, logits: Logits
    ) -> tuple[Operation, ...]:
        """Operations of one layer."""
        ends = len(self.forward((), b, n, context, logits))
        operations = self.forward(((block, 1),), b, n, context, logits)
        return operations[: len(operations) - ends]

    def layer(
        self, block: Block, b: Array, n: Array, context: Array, logits: Logits
    ) -> Iterator[Operation]:
        parts = self.plan.context
        if self.prefill and parts > 1:
            operations = self.alone(block, b, n / parts, context, logits)
            whole = {op.name: op for op in self.alone(block, b, n, context, logits)}
        else:
            operations = self.alone(block, b, n, context / parts, logits)
            whole = {}
            if parts > 1 and self.combination == "ring":
                # every turn attends with one device's share of the requests
                turn = self.alone(block, np.ceil(b / parts), n, context / parts, logits)
                whole = {op.name: op._replace(calls=parts) for op in turn}
        rows = b * (n / parts if self.prefill else n)
        for op in operations:
            if op.name == "moe" and self.plan.expert > 1:
                yield from self._experts(block, b, n)
            elif op.name == "allreduce":
                yield self._all_reduce(op, rows)
            elif op.name in ("attention", "mla") and parts > 1:
                yield from self._attention(block, whole.get(op.name, op), b, n, context)
            else:
                yield op

    def _all_reduce(self, op: Operation, rows: Array) -> Operation:
        """The all-reduce, which `forward` takes to stay in one node and to run in an engine's own
        kernels.
        """
        d, plan = self.deployment, self.plan
        if plan.tensor <= plan.node_of(d.device) and plan.backend == "vllm":
            return op
        message = rows * d.architecture.hidden * d.precision.residual_bytes
        return _communication(
            "allreduce", all_reduce(d.device, plan, message, plan.tensor, graphs=d.graphs)
        )

    def _attention(
        self, block: Block, op: Operation, b: Array, n: Array, context: Array
    ) -> Iterator[Operation]:
        """Attention of a context group: its share of the arithmetic, and the communication that
        shows.
        """
        plan, precision, device = self.plan, self.deployment.precision, self.deployment.device
        link = plan.message_link(device, plan.tensor * plan.context)
        if not self.prefill:
            yield op
            if self.combination == "tree":
                added = tokens_apart.tree_decode(
                    device, block.attention, precision, plan, queries=b * n
                )
            else:
                added = tokens_apart.ring_decode(
                    link, block.attention, precision, plan, queries=b * n
                )
            yield _communication("context", added)
            return
        mine = op._replace(
            timing=Timing(*(part / plan.context for part in op.timing)),
            work=Work(op.work.flops / plan.context, op.work.bytes / plan.context),
        )
        yield mine
        seconds = mine.timing.seconds
        kv = tokens_apart.pass_kv(
            link,
            block.attention,
            precision,
            plan,
            new=b * n,
            cached=b * context,
            attention_s=seconds,
        ).exposed_s
        queries = tokens_apart.pass_q(
            link, block.attention, precision, plan, new=b * n, attention_s=seconds
        ).exposed_s
        added = {"pass_kv": kv, "pass_q": queries, "cheaper": np.minimum(kv, queries)}[self.ring]
        yield _communication("context", added)

    def _experts(self, block: Block, b: Array, n: Array) -> Iterator[Operation]:
        """Whole experts on the devices of a group: tokens go there, the busiest device works,
        results come back.
        """
        d, plan, feed_forward = self.deployment, self.plan, block.feed_forward
        hidden, precision = d.architecture.hidden, d.precision
        computed = precision.of("experts").activations
        # devices that hold the same tokens each send a part of them
        requests = b / (plan.tensor * plan.context)
        moved = exchange(
            d.device, plan, feed_forward, precision, tokens=requests * n, hidden=hidden
        )
        independent = ops.independent_tokens(requests * plan.expert, n, d.expert_correlation)
        tokens = requests * n * plan.expert

        def busiest(few_rows: float, many_rows: float) -> tuple[Work, Array]:
            return busiest_work(
                d.device,
                plan,
                feed_forward,
                precision,
                group_tokens=tokens,
                independent_tokens=independent,
                hidden=hidden,
                tile_rows=(few_rows, many_rows),
            )

        c = d.device.constants
        work, visited = busiest(c.moe.few_rows, c.moe.many_rows)
        if d.fidelity == "calibrated":
            local_tokens = tokens * (plan.imbalance / plan.expert)
            widths = feed_forward.expert_input(hidden) + feed_forward.width
            timing = kernels.engine_experts(
                d.device,
                lambda few_rows, many_rows: busiest(few_rows, many_rows)[0],
                visited,
                computed,
                kernel=d.expert_kernel,
                tokens=local_tokens,
                hidden=feed_forward.expert_input(hidden),
                width=kernels.stored_width(
                    feed_forward.width, precision.of("experts").read_weight_bytes
                ),
                row_bytes=local_tokens
                * feed_forward.experts_per_token
                * widths
                * precision.residual_bytes,
            )
        else:
            timing = kernels.roofline(d.device, work, computed)
        yield Operation("moe", timing, work)
        yield _communication("exchange", np.asarray(moved.dispatch_s + moved.combine_s))


def _communication(name: str, seconds: Array) -> Operation:
    zero = np.zeros(())
    return Operation(name, Timing(seconds, zero, seconds, zero), Work(zero, zero))
