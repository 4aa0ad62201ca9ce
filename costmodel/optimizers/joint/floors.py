"""What is the least time that a replica can need, whatever it drafts, however prompts are split?

Roofs of the passes that every design of a placement makes: a plain step reads weights and caches,
and every prompt and output token passes through the matrix products. Times are those of the bare
roofs, divided by the highest share of a peak or bandwidth that the device's constants state and by
the largest correction that a profile may hold. The law of a replica never goes below them, so that
what they bound is bounded. Leaves out launches, exchanges, drafting.
"""

from dataclasses import dataclass, replace

import numpy as np

from costmodel.answers.energy import power_model
from costmodel.answers.estimate import Setting
from costmodel.answers.workload import Load
from costmodel.passes.forward import pass_cost
from costmodel.passes.ops import Array
from hardware_profiles.fitted.constants import Constants
from hardware_profiles.fitted.corrections import LARGEST
from hardware_profiles.profile import Device

_PRODUCTS = ("gemm", "moe")
_READ = ("attention", "mla")
_MANY_ROWS = float(1 << 20)  # of which no expert's are padded by much
_SHARES = tuple(
    f"{operation}.{roof}_efficiency"
    for operation in ("gemm", "attention", "verify", "mla", "moe")
    for roof in ("compute", "bandwidth")
)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Floor:
    """The least that a replica takes at every batch; arrays over batches.

    Args:
        step_s: of a decode step.
        row_s: of one token of a prompt, or one that is generated, on the busiest device.
        memory_s: traffic of a decode step at the datasheet's bandwidth.
        compute_s: arithmetic of a decode step at the datasheet's peak.
        sharing: requests whose prompts wait for each other.
        tokens: that pass for every request: its prompt, and what it generates.
    """

    step_s: Array
    row_s: float
    memory_s: Array
    compute_s: Array
    sharing: Array
    tokens: float

    def first(self, count: int) -> "Floor":
        """The floor of so many of the batches."""
        arrays = {
            name: getattr(self, name)[:count]
            for name in ("step_s", "memory_s", "compute_s", "sharing")
        }
        return replace(self, **arrays)

    def stay_s(self, steps: Array | float) -> Array:
        """Least seconds that a request stays with the batch, making so many steps."""
        return np.maximum(steps * self.step_s, self.sharing * self.tokens * self.row_s)

    def decode_s(self, steps: Array | float) -> Array:
        """Least seconds from the first token to the last: the steps, and the other requests' share
        of the stay.
        """
        beside = np.maximum(1.0 - 1.0 / self.sharing, 0.0) * self.stay_s(steps)
        return np.maximum(steps * self.step_s, np.where(self.sharing > 1.0, beside, 0.0))

    def joules(self, device: Device, steps: Array | float, stay_s: Array) -> Array:
        """Least energy of a device while the batch stays so long, making so many steps."""
        m, decode = power_model(device), steps * self.step_s
        drawn = m.idle_ratio * decode + steps * (
            m.memory_ratio * self.memory_s + m.compute_ratio * self.compute_s
        )
        rest = m.idle_ratio * np.maximum(stay_s - decode, 0.0)
        return np.asarray(device.power_w * (rest + np.minimum(decode, drawn)))


def floor_of(setting: Setting, load: Load, batch: Array) -> Floor | None:
    """The floor of a placement; None where nothing is known that holds whatever is drafted.

    Args:
        setting: of plain decoding.
        load: lengths of the requests.
        batch: requests in flight of the replica.
    """
    d, plan = setting.deployment, setting.plan
    has_floor = (
        d.fidelity != "measured"
        and d.architecture.encoder is None
        and d.text is None
        and d.schedule is None
    )
    has_floor = (
        has_floor
        and d.sparse_attention is None
        and d.sparse_feed_forward is None
        and not d.shared_prefix_tokens
    )
    if not has_floor or (plan is not None and (plan.pipeline > 1 or plan.context > 1)):
        return None
    copies = 1 if plan is None else plan.data
    sharing = batch / copies
    bare = replace(
        d, fidelity="datasheet", tensor_parallel=d.tensor_parallel if plan is None else plan.tensor
    )
    cost = pass_cost(
        bare, batch=sharing, query_tokens=1.0, context=load.decode_context, logits="none"
    )
    best = _best_ratio(d.device, d.precision.activations)
    step, memory, compute = (np.zeros(batch.shape) for _ in range(3))
    for operation in cost.operations:
        if operation.name not in (*_PRODUCTS, *_READ):
            continue
        t, calls = operation.timing, operation.calls
        apart = (
            copies if operation.name == "moe" else 1
        )  # experts are read by the devices of all copies together
        step += calls * np.maximum(t.compute_s, t.memory_s / apart)
        memory += calls * t.memory_s / apart
        compute += calls * t.compute_s
    many = pass_cost(
        bare, batch=_MANY_ROWS, query_tokens=1.0, context=1.0, logits="none"
    ).operations
    per_row = (
        sum(
            float(operation.calls * operation.timing.compute_s)
            for operation in many
            if operation.name in _PRODUCTS
        )
        / _MANY_ROWS
    )
    return Floor(
        step_s=step / best,
        row_s=per_row / best,
        memory_s=memory,
        compute_s=compute,
        sharing=sharing,
        tokens=load.mean_prompt_tokens + load.output_tokens,
    )


def _best_ratio(device: Device, activations: str) -> float:
    """How many times as fast as the datasheet's roofs any of the operations can be."""
    groups: list[Constants] = [device.constants, device.in_format(activations).constants]
    shares = [constants.number(name) for constants in groups for name in _SHARES]
    corrected = any(constants.corrections for constants in groups)
    best: float = max(1.0, *shares)
    return best * (float(np.exp(LARGEST)) if corrected else 1.0)
