"""What does a pass cost in the kernels of a particular engine?

Where matrix products run in 8 bits or fewer, everything between them (attention, norms, reductions,
the output head) stays in 16 bits, and the products have constants of their own. Engines also differ
in their all-reduce kernels, in the kernels that normalise queries and keys, and in which inputs of
products a kernel of its own quantises. Leaves out what the engine adds beside passes
(`costmodel.engines.record.overhead`), and parallel plans beyond one tensor-parallel group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from costmodel.engines.record.engine import Engine
from costmodel.parallel.passes import plan_cost
from costmodel.parallel.plan import ParallelPlan
from costmodel.passes.deployment import Deployment
from costmodel.passes.eight_bit import with_eight_bit_products
from costmodel.passes.forward import Logits, pass_cost
from costmodel.passes.ops import Array, Number
from costmodel.passes.precision import Precision
from simulator.timing.sampled_rows import at_every_row, sampled_rows

_PRODUCTS = ("gemm", "moe", "elementwise")  # and the quantisation of their inputs
_ATTENTION = ("attention", "mla", "state")  # depends on requests and contexts, not on rows alone
_EXCHANGED = ("exchange",)  # tokens go to their experts in the format in which these compute
_HEAD = ("head", "sampler")
_SIXTEEN_BITS = 2.0
_USUAL_ROWS = 1 << 14
# the up-projection of latent attention runs in 16 bits; expert kernels, as they were timed, convert
# what they read
_ALONE = frozenset({"kv_up", "experts"})

Whole = NDArray[np.int64]


class EnginePasses:
    """Times passes as an engine runs them.

    Args:
        deployment: model, device and how they run.
        engine: whose kernels run.
        plan: how the model is spread; None: one tensor-parallel group, as the deployment says.
        cuts: requests are sampled by top-k or top-p.

    Attributes:
        graph_rows: largest iteration with prompt tokens that runs from a captured graph.
        eager_s: host seconds to launch a larger one layer by layer, during which the device may
            wait.
        quantised_cache_ratio: least time of decode attention over an 8-bit cache over that of a
            16-bit one.
        host: what else costs the host time.
        overlapped: the host prepares an iteration while the device runs the one before.

    Example:
        >>> from costmodel.architectures.library import load_model
        >>> from costmodel.engine_library import load_engine
        >>> from hardware_profiles.loader import load_device
        >>> h100 = load_device("h100-sxm")
        >>> fp8 = Precision(weights="fp8", activations="fp8")
        >>> d = Deployment(architecture=load_model("llama-3.1-8b"), device=h100, precision=fp8)
        >>> own = EnginePasses(d, load_engine("vllm")).seconds(batch=1.0, query_tokens=1.0, context=1024.0)
        >>> bool(own["head"] > pass_cost(d, batch=1.0, query_tokens=1.0, context=1024.0).seconds["head"])
        True
    """

    def __init__(
        self,
        deployment: Deployment,
        engine: Engine,
        plan: ParallelPlan | None = None,
        *,
        cuts: bool = False,
    ) -> None:
        self.plan = plan
        sustained = _sustained(deployment, engine.kernels.sustained_ratio)
        reduced = engine.running(sustained)
        self.others = self.products = _between_products(reduced)
        if self.others is not reduced:
            alone = replace(reduced, quantised_inputs=reduced.quantised_inputs | _ALONE)
            self.products = with_eight_bit_products(alone, engine.kernels.products)
        self.graph_rows = engine.kernels.graph_rows
        self.eager_s = engine.host.eager_s(
            deployment.architecture, deployment.device.constants.host.layer_s
        )
        self.host = engine.host
        self.overlapped = engine.scheduler is not None and engine.scheduler.overlapped_scheduling
        narrow = reduced.precision.kv_bytes < _SIXTEEN_BITS
        self.quantised_cache_ratio = (
            engine.kernels.quantised_cache_ratio(deployment.device) if narrow else 0.0
        )
        # every rank sorts the whole vocabulary
        moved = engine.kernels.cut_bytes * deployment.architecture.vocab if cuts else 0.0
        self.cut_row_s = moved / deployment.device.bandwidth_bytes_per_s
        self._by_size: dict[bool, tuple[tuple[str, ...], Array]] = {}

    def seconds(
        self,
        *,
        batch: Number,
        query_tokens: Number,
        context: Number,
        logits: Logits = "all",
        prefill: bool = False,
    ) -> Mapping[str, Array]:
        """Seconds of a pass by operation; arguments as of `costmodel.passes.forward.pass_cost`."""

        def timed(deployment: Deployment, logits: Logits) -> Mapping[str, Array]:
            shape = {"batch": batch, "query_tokens": query_tokens, "context": context}
            if self.plan is not None:
                return planned_seconds(
                    deployment, self.plan, **shape, logits=logits, prefill=prefill
                )
            return pass_cost(deployment, **shape, logits=logits, prefill=prefill).seconds

        pass_s = dict(timed(self.others, logits))
        if self.products is not self.others:  # the output head stays in 16 bits
            products = timed(self.products, "none")
            own = ("moe",) if self.products.precision.experts_alone else _PRODUCTS
            pass_s |= {name: products[name] for name in (*own, *_EXCHANGED) if name in products}
        if self.quantised_cache_ratio and not prefill and "attention" in pass_s:
            wide = timed(replace(self.others, precision=Precision()), "none")["attention"]
            pass_s["attention"] = np.maximum(pass_s["attention"], self.quantised_cache_ratio * wide)
        if "sampler" in pass_s:
            rows = np.asarray(batch) * (np.asarray(query_tokens) if logits == "all" else 1.0)
            pass_s["sampler"] = pass_s["sampler"] + rows * self.cut_row_s
        return pass_s

    @cached_property
    def attention(self) -> str:
        """The operation to which attention is billed: `attention` or `mla`."""
        kinds = self.seconds(batch=1.0, query_tokens=1.0, context=1.0)
        return "mla" if "mla" in kinds else "attention"

    def spent_s(self, by_rows: Whole, by_sampled: Whole) -> dict[str, float]:
        """Seconds by operation of many iterations, attention left out.

        Args:
            by_rows: iterations by the rows of their pass, [rows].
            by_sampled: iterations by the rows that were sampled, [rows].
        """
        spent: dict[str, float] = {}
        for counts, heads in ((by_rows, False), (by_sampled, True)):
            names, table = self._operations(counts.size, heads)
            spent |= dict(zip(names, (table[:, : counts.size] @ counts).tolist(), strict=True))
        return spent

    def _operations(self, size: int, heads: bool) -> tuple[tuple[str, ...], Array]:
        """Names and seconds, [operation, rows], of the operations on 0..size - 1 rows; nothing
        costs nothing.
        """
        if heads not in self._by_size or self._by_size[heads][1].shape[1] < size:
            # few sizes, so that what a run is told does not hang on the runs before it
            most = _USUAL_ROWS
            while most < size - 1:
                most *= 2
            rows = sampled_rows(most)
            pass_s = self.seconds(
                batch=rows, query_tokens=1.0, context=0.0, logits="all" if heads else "none"
            )
            names = tuple(
                name for name in pass_s if name not in _ATTENTION and (name in _HEAD) == heads
            )
            table = np.zeros((len(names), most + 1))
            for index, name in enumerate(names):
                table[index, 1:] = at_every_row(rows, pass_s[name])
            self._by_size[heads] = (names, table)
        return self._by_size[heads]


def planned_seconds(
    deployment: Deployment,
    plan: ParallelPlan,
    *,
    batch: Number,
    query_tokens: Number,
    context: Number,
    logits: Logits = "all",
    prefill: bool = False,
) -> Mapping[str, Array]:
    """Seconds by operation in which everybody who is in a filled pipeline advances; arguments as of
    `plan_cost`.
    """
    flights = plan.pipeline
    cost = plan_cost(
        deployment,
        plan,
        batch=np.maximum(np.asarray(batch) / flights, 1.0),
        query_tokens=query_tokens,
        context=context,
        logits=logits,
        prefill=prefill,
    )
    scale = np.asarray(cost.step_s(flights) / cost.total_s)
    return {name: np.asarray(seconds * scale) for name, seconds in cost.seconds.items()}


def _sustained(deployment: Deployment, ratio: float) -> Deployment:
    """The deployment on a device whose matrix units run at a share of their rate; CPUs were timed
    in long runs.
    """
    device = deployment.device
    if device.kind != "gpu":
        return deployment
    peaks = {name: rate * ratio for name, rate in device.peak_flops_per_s.items()}
    return replace(deployment, device=replace(device, peak_flops_per_s=peaks))


def _between_products(deployment: Deployment) -> Deployment:
    """The deployment with everything but the cache in 16 bits or wider."""
    p = deployment.precision
    forms = (p, p.of("experts"))
    if all(
        form.activation_bytes >= _SIXTEEN_BITS and form.weight_bytes >= _SIXTEEN_BITS
        for form in forms
    ):
        return deployment
    return replace(deployment, precision=Precision(kv=p.kv), product_walk_s=0.0)
