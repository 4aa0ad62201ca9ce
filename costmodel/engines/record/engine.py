"""What is known of one serving engine?

An `Engine` holds every fact once: what it adds to a step, which kernels it runs, how it divides
memory, how it schedules, and what its configuration can express. Leaves out what an operator sets:
`replace` a part for that.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from costmodel.architectures.architecture import Architecture
from costmodel.drafters.drafter import Drafter
from costmodel.engines.record.host import USUAL_HOST, Host
from costmodel.engines.record.idle_drafter import UNREAD, IdleDrafter
from costmodel.engines.record.memory import Memory
from costmodel.engines.record.options import Options
from costmodel.engines.record.overhead import Overhead
from costmodel.passes.deployment import Deployment
from costmodel.passes.eight_bit import Products
from costmodel.passes.expert_kernels import (
    ExpertKernel,
    ExpertKernelName,
    expert_format,
    expert_kernel,
)
from costmodel.passes.kernels.communication import Reductions
from costmodel.passes.memory import activation_bytes
from costmodel.passes.ops import Array, Number
from costmodel.passes.precision import Precision
from costmodel.passes.prompt_attention import PromptAttention, with_prompt_attention
from costmodel.scheduler import Scheduler
from hardware_profiles.errors import InputError
from hardware_profiles.profile import Device

_NORMED = frozenset({"mixer", "feed_forward"})  # inputs of products that a norm makes
_HOPPER = ("h100", "h200", "h20", "h800", "gh200")
# What a GPU at its power limit keeps up, over minutes, of the arithmetic rate of kernel tables,
# which time milliseconds or predictable operands: 257 of 295 TFLOP/s on an A100 (thonking.ai,
# "Strangely, Matrix Multiplications on GPUs Run Faster When Given Predictable Data"); clocks of
# H100 and H200: arXiv:2604.11391. Fitted (`simulator.closed_loop.fit`) to runs of dense models on
# H100 and H200, three engines; ASSUMED for other GPUs.
SUSTAINED_RATIO = 0.83
ANY = "*"  # key of the overhead that holds for every drafter without an entry of its own


def _release(version: str | None) -> tuple[float, float]:
    """Major and minor number of a release; None and what has no numbers count as the newest."""
    numbers = re.match(r"v?(\d+)\.(\d+)", version or "")
    return (float("inf"), 0.0) if numbers is None else (float(numbers[1]), float(numbers[2]))


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpertChoice:
    """Which kernel computes routed experts.

    Args:
        kernel: its name.
        devices: beginnings of the names of devices on which it runs.
        formats: bits of weights and arithmetic, such as `4/16`.
        until: first release, as (major, minor), that runs another one; None: the newest one does.
    """

    kernel: ExpertKernelName
    devices: tuple[str, ...]
    formats: tuple[str, ...]
    until: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ProductWalk:
    """Products whose kernels do not split their inputs among processors.

    Args:
        devices: beginnings of the names of devices on which they run.
        arithmetic: number format, with scales by block.
        walk_s: seconds in which they go through a block of 128 inputs.
        source: where the number comes from.
    """

    devices: tuple[str, ...]
    arithmetic: str
    walk_s: float
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernels:
    """What an engine runs on a device.

    Args:
        unsplit: beginnings of the names of devices on which the attention of a verify pass does not
            split a request's cache among processors. CPUs read the cache once in any case.
        graphs: passes run from captured graphs; without, the host launches layer by layer.
        graph_rows: largest iteration with prompt tokens that runs from a captured graph. Iterations
            that only decode always do where there are graphs.
        head_norm_kernels: launches per layer to normalise queries and keys, where the model does; 0
            where that is fused with the rotation.
        norms_in_reductions: families (`model_type`) whose all-reduces add the residual, normalise
            and quantise too, where the model is wider than `fused_width`.
        fused_width: of the residual vector.
        one_shot_rows: rows up to which those that quantise too run the one-shot kernel whatever
            would be faster.
        merges_experts: families (`model_type`) whose shared experts run in the kernels of the
            routed ones.
        quantised_inputs: inputs of 8-bit products that the kernel before them writes quantised
            where one scale holds for a tensor: `mixer` and `feed_forward` (by the norm), `output`
            (by attention), `down` (by the activation). Scales by block are always made by a kernel
            of their own.
        products: whose 8-bit products it runs.
        walks: products of scales by block that take the longer the more inputs they have.
        prompt_attention: whose attention over prompts it runs.
        experts: whose kernels compute routed experts; the first choice that holds counts, and
            without one the device's profile.
        padded_experts: multiples to which it pads the width of the model and that of an expert on
            one device, where experts have 4 bits.
        reductions: whose all-reduce kernels it runs, and up to how many devices.
        fp8_cache: models with fp8 weights keep their cache in fp8 too.
        release: that runs, as (major, minor).
        quantised_cache: least time of decode attention over an 8-bit cache on Hopper, as a share of
            that over a 16-bit one, by the first release, as (major, minor), for which it no longer
            holds; empty: it goes by the bytes.
        cut_bytes: traffic per logit where top-k or top-p are applied by sorting the vocabulary.
        sustained_ratio: share of a GPU's arithmetic rate in kernel tables that it keeps up while it
            serves, in (0, 1].
        cuts_until: first release that no longer does, as (major, minor); (0, 0): none ever did.
        source: where this comes from.
    """

    unsplit: tuple[str, ...] = ()
    graphs: bool = True
    graph_rows: int = 0
    head_norm_kernels: int = 1
    norms_in_reductions: frozenset[str] = frozenset()
    fused_width: int = 0
    one_shot_rows: int = 0
    merges_experts: frozenset[str] = frozenset()
    quantised_inputs: frozenset[str] = frozenset()
    products: Products = "cutlass"
    walks: tuple[ProductWalk, ...] = ()
    prompt_attention: PromptAttention = "profile"
    experts: tuple[ExpertChoice, ...] = ()
    padded_experts: tuple[int, int] = (1, 1)
    reductions: Reductions = field(default_factory=Reductions)
    fp8_cache: bool = False
    release: tuple[float, float] = (float("inf"), 0.0)
    quantised_cache: tuple[tuple[tuple[int, int], float], ...] = ()
    cut_bytes: float = 0.0
    cuts_until: tuple[int, int] = (0, 0)
    sustained_ratio: float = SUSTAINED_RATIO
    source: str

    def at(self, version: str | None) -> "Kernels":
        """Those of a release; None: of the newest one known."""
        release = _release(version)
        return replace(
            self, release=release, cut_bytes=self.cut_bytes if release < self.cuts_until else 0.0
        )

    def expert_kernel(self, device: Device, precision: Precision) -> ExpertKernel | None:
        """The kernel of routed experts on a device; None: the profile's constants hold."""
        own = precision.of("experts")
        form = expert_format(own)
        for choice in self.experts:
            is_chosen = device.name.startswith(choice.devices) and form in choice.formats
            if is_chosen and (choice.until is None or self.release < choice.until):
                return expert_kernel(device, choice.kernel, form)
        return None

    def product_walk_s(self, device: Device, arithmetic: str) -> float:
        """Seconds for a block of 128 inputs of a product with scales by block; 0: not so."""
        return next(
            (
                walk.walk_s
                for walk in self.walks
                if device.name.startswith(walk.devices) and walk.arithmetic == arithmetic
            ),
            0.0,
        )

    def quantised_cache_ratio(self, device: Device) -> float:
        """Least time of decode attention over an 8-bit cache over that of a 16-bit one; 0: nothing
        but its bytes.
        """
        if not device.name.startswith(_HOPPER):
            return 0.0
        return next((ratio for until, ratio in self.quantised_cache if self.release < until), 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulerDefaults:
    """How an engine schedules where nobody says otherwise, and when.

    Args:
        versions: versions whose defaults these are.
        large: on large devices, at the newest release.
        large_bytes: memory from which on a device is large.
        small: on all other devices; None: the same.
        small_devices: parts of the names of devices that do not count as large whatever their
            memory.
        overlaps_from: release since which scheduling is overlapped, as (major, minor); (0, 0) for
            all.
        source: where the numbers come from.
    """

    versions: str
    large: Scheduler
    large_bytes: float = 0.0
    small: Scheduler | None = None
    small_devices: tuple[str, ...] = ()
    overlaps_from: tuple[int, int] = (0, 0)
    source: str

    def on(self, device: Device, version: str | None) -> Scheduler:
        """The scheduler that runs on a device, at a release; None: the newest one known."""
        is_large = device.memory_bytes >= self.large_bytes and not any(
            part in device.name for part in self.small_devices
        )
        defaults = self.large if is_large or self.small is None else self.small
        overlaps = defaults.overlapped_scheduling and _release(version) >= self.overlaps_from
        return replace(defaults, overlapped_scheduling=overlaps)


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """A serving engine.

    Args:
        name: as it is selected.
        aliases: other names, in lower case.
        overheads: what it adds to a step, by who drafts (`Draft.by`); `ANY` holds for all others.
        kernels: what it runs.
        host: what iterations with prompts cost its host.
        idle_drafter: what its drafter does in steps in which a schedule drafts nothing.
        follows_target: draft models compute what the target does in a pass of their own, beside
            those that draft.
        keeps_fp32: a checkpoint in 32 bits runs in 32 bits unless another format is asked for;
            others load 16 bits (vLLM and SGLang: `dtype auto` of a 32-bit config; llama.cpp
            converts to 16 bits).
        memory: how it divides a device's memory.
        scheduler_defaults: how it schedules by default; None where that was not read.
        started: scheduler that it was started with; None: that of large devices and the newest
            release (see `on`).
        options: what its configuration can express; None where nothing is written for it.

    Raises:
        InputError: no overhead for drafters without one of their own.
    """

    name: str
    aliases: tuple[str, ...] = ()
    overheads: Mapping[str, Overhead]
    kernels: Kernels
    host: Host = USUAL_HOST
    idle_drafter: IdleDrafter = UNREAD
    follows_target: bool = False
    keeps_fp32: bool = False
    memory: Memory
    scheduler_defaults: SchedulerDefaults | None = None
    started: Scheduler | None = None
    options: Options | None = None

    def __post_init__(self) -> None:
        if ANY not in self.overheads:
            raise InputError("needs an entry for every other drafter", key=f"overheads.{ANY}")

    def on(self, device: Device, version: str | None = None) -> "Engine":
        """The engine with the defaults that hold on a device.

        Args:
            device: defaults depend on its memory, some on its name too.
            version: release such as `0.12.0`; None: the newest one known.
        """
        if self.scheduler_defaults is None:
            return self
        return replace(
            self,
            started=self.scheduler_defaults.on(device, version),
            kernels=self.kernels.at(version),
        )

    @property
    def scheduler(self) -> Scheduler | None:
        """The scheduler that runs; None where nothing is known of it."""
        if self.started is None and self.scheduler_defaults is not None:
            return self.scheduler_defaults.large
        return self.started

    @property
    def scheduling(self) -> Scheduler:
        """The scheduler that runs.

        Raises:
            InputError: nothing is known of it.
        """
        if self.scheduler is None:
            raise InputError(
                "its scheduler's defaults are not known", key="engine", value=self.name
            )
        return self.scheduler

    def drafting(self, drafter: Drafter) -> Drafter:
        """The drafter as the engine runs it."""
        stages = (
            replace(
                stage,
                follows_target=self.follows_target
                and stage.draft.by == "model"
                and stage.draft.own_cache,
            )
            for stage in drafter.stages
        )
        return replace(drafter, stages=tuple(stages))

    def overhead(self, drafter: str) -> Overhead:
        """What the engine adds to a step in which `drafter` drafts."""
        return self.overheads.get(drafter, self.overheads[ANY])

    def splits_verify(self, device: Device) -> bool:
        """Whether the attention of a verify pass splits a request's cache among the processors of a
        device.
        """
        return device.kind == "cpu" or not device.name.startswith(self.kernels.unsplit)

    def running(self, deployment: Deployment) -> Deployment:
        """The deployment with the engine's kernels between products; models released in fp8 have
        scales by block.
        """
        model, k = deployment.architecture, self.kernels
        by_tensor = not deployment.scales_by_block
        fused = model.model_type in k.norms_in_reductions and model.hidden > k.fused_width
        done = k.quantised_inputs | (
            _NORMED if fused and deployment.tensor_parallel > 1 else frozenset()
        )
        return replace(
            with_prompt_attention(deployment, k.prompt_attention),
            expert_kernel=k.expert_kernel(deployment.device, deployment.precision),
            padded_experts=k.padded_experts
            if deployment.precision.of("experts").read_weight_bytes < 1.0
            else (1, 1),
            head_norm_kernels=k.head_norm_kernels,
            norms_in_reductions=fused,
            reductions=k.reductions,
            merges_experts=model.model_type in k.merges_experts,
            product_walk_s=0.0
            if by_tensor
            else k.product_walk_s(deployment.device, deployment.precision.activations),
            one_shot_rows=k.one_shot_rows
            if fused and deployment.precision.quantises and by_tensor
            else 0,
            quantised_inputs=done if by_tensor else frozenset(),
        )

    @property
    def pass_tokens(self) -> int:
        """Tokens of the largest pass that buffers are set up for; 0: they follow the pass at
        hand.
        """
        if self.memory.pass_tokens is not None:
            return self.memory.pass_tokens
        return 0 if self.scheduler is None else self.scheduler.token_budget

    def buffer_bytes(
        self, architecture: Architecture, precision: Precision, tensor_parallel: int = 1
    ) -> float:
        """Bytes of the activations of the largest pass, on each device; its logits are those of one
        row.

        Args:
            architecture: the target.
            precision: number formats.
            tensor_parallel: devices that share the model.
        """
        if not self.pass_tokens:
            return 0.0
        return (
            float(activation_bytes(architecture, precision, tokens=self.pass_tokens, logit_rows=1))
            / tensor_parallel
        )

    def cache_bytes(
        self,
        device: Device,
        architecture: Architecture,
        precision: Precision,
        *,
        weights_bytes: float,
        pass_bytes: Number = 0.0,
        tensor_parallel: int = 1,
        devices: int | None = None,
    ) -> Array:
        """Bytes that the cache takes of one device; below 0 where not even the rest fits.

        This is the one place where an engine's memory is divided: every answer about what fits
        reads it.

        Args:
            device: of the group.
            architecture: the target.
            precision: number formats.
            weights_bytes: of target and drafter, on that device.
            pass_bytes: activations of the pass at hand, on that device; buffers are at least those
                of `buffer_bytes`.
            tensor_parallel: devices that share every layer.
            devices: of the whole group; None: `tensor_parallel`.
        """
        buffers = self.buffer_bytes(architecture, precision, tensor_parallel)
        return self.memory.cache_bytes(
            device.memory_bytes,
            weights_bytes=weights_bytes,
            activations_bytes=np.maximum(buffers, pass_bytes),
            devices=tensor_parallel if devices is None else devices,
        )
