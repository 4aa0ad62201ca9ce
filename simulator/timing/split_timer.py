"""How long does an iteration take when attention and feed-forward layers live on different devices?

Decoding requests circulate between the two sides as micro-batches, layer by layer, by the cost
model's pipeline law. Leaves out prompts: they are timed as if the attention side held the whole
model, and belong on replicas of their own (`Disaggregation`); and draft passes, which run on the
attention side (`CostModelDraft`).

Reference: Wang et al., "Step-3 is Large yet Affordable" (arXiv:2507.19427), section 4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from costmodel.answers.estimate import Setting
from costmodel.parallel.disaggregation import split_layers
from costmodel.parallel.plan import Link
from costmodel.passes.deployment import Deployment
from costmodel.passes.forward import pass_cost
from hardware_profiles.errors import InputError
from simulator.loop.state import Real
from simulator.loop.tables import Tables
from simulator.timing.cost_timer import CostModelTimer, TableSize, extended

_FEED_FORWARD = ("gate", "up", "gate_up", "down")  # routers run beside attention (section 7.1)
_SHARED = ("elementwise", "allreduce")  # half of them stands before each side's layers
_OUTSIDE_LAYERS = ("head", "sampler")


class SplitTimer:
    """Times iterations of attention-FFN disaggregation.

    Args:
        setting: target, device, drafter and engine of the attention side.
        feed_forward: the feed-forward side: the same model, on its own device and tensor-parallel
            group.
        link: between the sides.
        copies: groups of devices on the attention side, which share the requests.
        micro_batches: in flight, while there are as many requests.

    Raises:
        InputError: other models on the two sides, fewer than one copy or micro-batch.
    """

    def __init__(
        self,
        setting: Setting,
        feed_forward: Deployment,
        link: Link,
        *,
        copies: int = 1,
        micro_batches: int = 3,
    ) -> None:
        if feed_forward.architecture != setting.target:
            raise InputError(
                "must be the attention side's model",
                key="model",
                value=feed_forward.architecture.called,
            )
        for key, value in (("copies", copies), ("micro_batches", micro_batches)):
            if value < 1:
                raise InputError("must be >= 1", key=key, value=value)
        self.setting, self.feed_forward, self.link = setting, feed_forward, link
        self.copies, self.micro_batches = copies, micro_batches
        self._alone = CostModelTimer(setting)

    def __call__(
        self,
        decode_requests: int,
        query_tokens: float,
        decode_context_tokens: float,
        prefill: Sequence[tuple[int, int]],
        longest_context: float = 0.0,
    ) -> float:
        """Seconds of one iteration without draft passes: see `StepTimer`."""
        seconds = self._alone(0, 0.0, 0.0, prefill) if prefill else 0.0
        if not decode_requests:
            return seconds
        overhead, rows = self.setting.plain_overhead, decode_requests * query_tokens
        context = decode_context_tokens / decode_requests
        shape = np.array([decode_requests, query_tokens, context, rows], dtype=np.float64)
        step = float(self.layers_s(shape[0], shape[1], shape[2])) + float(self._head_s(shape[3]))
        return (
            seconds
            + step
            + overhead.request_s * decode_requests
            + (0.0 if prefill else overhead.step_s)
        )

    def tables(self, size: TableSize, *, drafts: bool) -> Tables:
        """Tables of a scenario: see `TabledTimer`."""
        t = self._alone.tables(size, drafts=drafts)
        queries, requests = t.query_axis[:, None, None], t.request_axis[None, :, None]
        context = t.context_step * np.arange(t.attention_s.shape[2], dtype=np.float64)
        rows = queries * requests
        layers = self.layers_s(requests, queries, context)
        own = extended(t.row_s, rows) + extended(t.head_s, rows) - self._head_s(rows)
        return t._replace(
            attention_s=np.array(layers - own), together_s=np.zeros_like(t.together_s)
        )

    def layers_s(self, requests: Real, query_tokens: Real, context: Real) -> NDArray[np.float64]:
        """Seconds in which every request passes all layers once; arguments broadcast."""
        seconds = np.zeros(
            np.broadcast_shapes(np.shape(requests), np.shape(query_tokens), np.shape(context))
        )
        for count in range(1, self.micro_batches + 1):
            batch = np.maximum(requests / count, 1.0)
            attention, _ = _sides(
                self.setting.deployment, np.maximum(batch / self.copies, 1.0), query_tokens, context
            )
            _, feed_forward = _sides(self.feed_forward, batch, query_tokens, context)
            target, precision = self.setting.target, self.setting.deployment.precision
            sent = batch * query_tokens * target.hidden * precision.activation_bytes
            message = self.link.latency_s + sent / self.link.bytes_per_s
            n = target.layers
            step = split_layers(
                attention / n, feed_forward / n, message, layers=n, micro_batches=count
            ).step_s
            applies = (
                requests >= count
                if count == self.micro_batches
                else (requests >= count) & (requests < count + 1)
            )
            seconds = np.where(applies, step, seconds)
        return seconds

    def _head_s(self, rows: Real) -> NDArray[np.float64]:
        """Output head and sampler, on the attention side's copies."""
        shared = np.maximum(rows / self.copies, 1.0)
        seconds = pass_cost(
            self.setting.deployment, batch=shared, query_tokens=1.0, context=0.0
        ).seconds
        return np.asarray(
            sum((seconds[name] for name in _OUTSIDE_LAYERS if name in seconds), start=np.zeros(()))
        )


def _sides(d: Deployment, batch: Real, query_tokens: Real, context: Real) -> tuple[Real, Real]:
    """Seconds of all attention layers and of all feed-forward layers of a pass."""
    attention = feed_forward = np.zeros(())
    for operation in pass_cost(
        d, batch=batch, query_tokens=query_tokens, context=context, logits="none"
    ).operations:
        seconds = operation.timing.seconds * operation.calls
        if operation.name in _SHARED:
            attention, feed_forward = attention + seconds / 2.0, feed_forward + seconds / 2.0
        elif (
            operation.name == "moe"
            or operation.role.removeprefix("shared_").removeprefix("expert_") in _FEED_FORWARD
        ):
            feed_forward = feed_forward + seconds
        else:
            attention = attention + seconds
    return attention, feed_forward
