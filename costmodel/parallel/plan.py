"""How is a model spread over devices, and what does each of them hold?

Sizes of the five ways to divide a model, the links between the devices, and the weights and cache
of the fullest one. Devices are numbered tensor group first, then context, data and pipeline, so
that the tensor group stays in one node where it fits. Leaves out time: see `collectives` and
`passes`.
"""

from dataclasses import dataclass, replace

import numpy as np

from costmodel.architectures.architecture import Architecture
from costmodel.configuration import DeploymentNames
from costmodel.passes import memory
from costmodel.passes.kernels.communication import BACKENDS, Backend
from costmodel.passes.memory import PAGE_TOKENS
from costmodel.passes.ops import Array, Number
from costmodel.passes.precision import Precision
from hardware_profiles.errors import InputError
from hardware_profiles.profile import Device
from hardware_profiles.units import GIGA, MICRO

NODE_DEVICES = 8
BETWEEN_NODES_BYTES_PER_S = 50 * GIGA  # ASSUMED: one 400 Gbit/s port per device
BETWEEN_NODES_LATENCY_S = 10 * MICRO  # ASSUMED: one small message over RDMA, launch included


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A connection between two devices.

    Args:
        bytes_per_s: rate per direction, > 0.
        latency_s: of one message however small, >= 0.
    """

    bytes_per_s: float
    latency_s: float

    def __post_init__(self) -> None:
        if not (self.bytes_per_s > 0.0 and self.latency_s >= 0.0):
            raise InputError(
                "needs a rate > 0 and a latency >= 0",
                key="link",
                value=(self.bytes_per_s, self.latency_s),
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class ParallelPlan:
    """How many devices share a model, in each of five ways; sizes of 1 change nothing.

    Args:
        tensor: devices that share every layer.
        pipeline: stages of consecutive layers.
        expert: devices that share the routed experts of a stage, each whole; they are devices of
            the stage, and 1 leaves the experts split like other weights.
        data: copies of attention and dense layers, each with its own requests.
        context: devices that share the tokens of every request.
        node_devices: devices of one node; None takes those that the device's own link joins, 8
            where it does not say.
        within: link in a node; None takes the device's own.
        between: link between nodes; None takes 50 GB/s and 10 µs, or the device's own rate where
            that is lower.
        imbalance: load of the busiest expert device over the mean, >= 1.
        backend: library of the collectives in a node; with `nccl` every other message, too, is a
            call of its own.

    Raises:
        InputError: an unknown backend, a size below 1, an imbalance below 1 or beyond the expert
            devices, or expert devices that do not divide those of a stage.
    """

    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    data: int = 1
    context: int = 1
    node_devices: int | None = None
    within: Link | None = None
    between: Link | None = None
    imbalance: float = 1.0
    backend: Backend = "vllm"

    def __post_init__(self) -> None:
        for key in ("tensor", "pipeline", "expert", "data", "context", "node_devices"):
            size = getattr(self, key)
            if size is not None and size < 1:
                raise InputError("must be >= 1", key=key, value=size)
        if self.stage_devices % self.expert:
            raise InputError(
                f"must divide the {self.stage_devices} devices of a stage",
                key="expert",
                value=self.expert,
            )
        if self.backend not in BACKENDS:
            raise InputError(
                f"must be one of {', '.join(BACKENDS)}", key="backend", value=self.backend
            )
        if not 1.0 <= self.imbalance <= self.expert:
            raise InputError(
                f"must lie in [1, {self.expert}]", key="imbalance", value=self.imbalance
            )

    @property
    def stage_devices(self) -> int:
        """Devices of one pipeline stage."""
        return self.tensor * self.context * self.data

    @property
    def devices(self) -> int:
        """Devices of the whole plan."""
        return self.stage_devices * self.pipeline

    def check(self, architecture: Architecture) -> None:
        """Check that the model divides as the plan says.

        Raises:
            InputError: more stages than layers, heads or experts that do not divide, experts asked
                of a model that has none, an encoder-decoder.
        """
        if architecture.encoder is not None:
            rule = (
                "is known of models of one stack of layers; spread an encoder-decoder by tp alone"
            )
            raise InputError(rule, key="plan", value=architecture.called)
        if self.pipeline > architecture.layers:
            raise InputError(
                f"{architecture.called} has {architecture.layers} layers",
                key="pp",
                value=self.pipeline,
            )
        if self.expert > 1 and not architecture.is_moe:
            raise InputError(f"{architecture.called} has no experts", key="ep", value=self.expert)
        for block, _ in architecture.blocks:
            if block.attention.heads % self.tensor:
                raise InputError(
                    f"must divide the heads of {architecture.called}", key="tp", value=self.tensor
                )
            if block.feed_forward.experts % self.expert:
                rule = (
                    f"must divide the {block.feed_forward.experts} experts of {architecture.called}"
                )
                raise InputError(rule, key="ep", value=self.expert)

    def node_of(self, device: Device) -> int:
        """Devices that one link joins."""
        return self.node_devices or device.link_devices or NODE_DEVICES

    def link(self, device: Device, span: int) -> Link:
        """The slowest link of a group that spans `span` consecutively numbered devices."""
        if span <= self.node_of(device):
            return self.within or Link(
                bytes_per_s=device.link_bytes_per_s, latency_s=device.constants.allreduce.launch_s
            )
        slower = min(device.link_bytes_per_s, BETWEEN_NODES_BYTES_PER_S)
        return self.between or Link(bytes_per_s=slower, latency_s=BETWEEN_NODES_LATENCY_S)

    def message_link(self, device: Device, span: int) -> Link:
        """The link for a message or exchange that is a call of its own: NCCL's takes no less than
        its launch.

        Args:
            device: profile.
            span: devices among which it is sent.
        """
        link = self.link(device, span)
        if self.backend != "nccl":
            return link
        return replace(link, latency_s=max(link.latency_s, device.constants.nccl.launch_s))


def plan_of(where: DeploymentNames) -> ParallelPlan | None:
    """The plan of a deployment; None where it is one tensor group.

    Args:
        where: with its numbers of devices.

    Raises:
        InputError: expert devices that do not divide those of a stage.
    """
    tp, pp, ep = where.tensor_parallel, where.pipeline_parallel, where.expert_parallel
    dp, cp = where.data_parallel, where.context_parallel
    if pp == ep == dp == cp == 1:
        return None
    if (tp * dp * cp) % ep:
        raise InputError(
            f"must divide the {tp * dp * cp} devices of a stage (tp times dp times cp)",
            key="ep",
            value=ep,
        )
    return ParallelPlan(tensor=tp, pipeline=pp, expert=ep, data=dp, context=cp)


def stage_layers(layers: int, stages: int) -> tuple[int, ...]:
    """Layers of each stage, as even as they can be, the longer stages first.

    >>> stage_layers(61, 4)
    (16, 15, 15, 15)
    """
    shortest, more = divmod(layers, stages)
    return tuple(shortest + (stage < more) for stage in range(stages))


def fullest_share(architecture: Architecture, plan: ParallelPlan) -> float:
    """Share of the layers in the longest stage, 1 / stages where they divide.

    Args:
        architecture: of the model.
        plan: how many stages share its layers.
    """
    return stage_layers(architecture.layers, plan.pipeline)[0] / architecture.layers


def weight_bytes(architecture: Architecture, precision: Precision, plan: ParallelPlan) -> float:
    """Bytes of the weights on the fullest device.

    Layers of different kinds are taken to be spread evenly over the stages; the embedding and the
    head lie at the two ends of the pipeline, and the larger of them counts where there are several
    stages.

    Args:
        architecture: the model.
        precision: number formats; the embedding is kept in 16 bits or wider.
        plan: how it is spread.
    """
    plan.check(architecture)
    whole, layers = memory.weight_values(architecture), memory.layer_values(architecture)
    last = whole._replace(
        matrices=whole.matrices - layers.matrices, experts=0.0, embedding=0.0
    ).stored_bytes(precision)
    embedding = whole.embedding * precision.embedding_bytes
    ends = embedding + last if plan.pipeline == 1 else max(embedding, last)
    among = plan.expert if plan.expert > 1 else plan.tensor
    dense, routed = (
        layers.matrices * precision.weight_bytes,
        layers.experts * precision.of("experts").weight_bytes,
    )
    layers_ratio = fullest_share(architecture, plan) * precision.held_layers_ratio
    return layers_ratio * (dense / plan.tensor + routed / among) + ends / plan.tensor


def kv_bytes(
    architecture: Architecture,
    precision: Precision,
    plan: ParallelPlan,
    *,
    batch: Number,
    context: Number,
    page_tokens: int = PAGE_TOKENS,
) -> Array:
    """Bytes of the KV cache on the fullest device for `batch` requests of the whole plan.

    Key/value heads are replicated where the tensor group has more devices than heads; requests are
    dealt out to data copies, and each request's tokens to the context group, both rounded up.

    Args:
        architecture: the model.
        precision: number formats.
        plan: how it is spread.
        batch: requests.
        context: cached tokens per request.
        page_tokens: of a page, to which every request is rounded up.
    """
    plan.check(architecture)
    tokens = (
        np.ceil(np.asarray(context, dtype=np.float64) / (plan.context * page_tokens)) * page_tokens
    )
    requests = np.ceil(np.asarray(batch, dtype=np.float64) / plan.data)
    whole = memory.kv_bytes(
        architecture,
        precision,
        batch=requests,
        context=tokens,
        tensor_parallel=plan.tensor,
        page_tokens=page_tokens,
    )
    return np.asarray(fullest_share(architecture, plan) * whole)
