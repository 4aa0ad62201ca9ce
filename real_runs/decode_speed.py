"""How many tokens does a model write per second here, and which share of the memory bandwidth is
that?

Times plain decoding passes of our forward at one context length, and where asked Transformers'
passes over the same weights, alternately, medians of undisturbed repeats. Achieved bandwidth counts
what a pass must read: weights without the embedding's rows, and the keys and values of the context.
Leaves out drafting and prefill.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from costmodel.architectures.library import load_model
from hardware_profiles.errors import InputError, RooftreeError
from hardware_profiles.units import GIGA, MIB, MILLI
from real_runs.kernels.copy import copy_cases
from real_runs.kernels.machine import synchronize
from real_runs.kernels.timing import Call
from real_runs.models.device import checked_device, device_title
from real_runs.models.graphs import BUCKET_SLOTS, StaticPass
from real_runs.models.llama import Llama
from real_runs.models.loading.transformers_model import (
    ATTENTIONS,
    transformers_model,
    transformers_passes,
)
from real_runs.models.loading.weights import find_model, load_weights
from real_runs.models.loading.weights_like import weights_like

if TYPE_CHECKING:
    from real_runs.models.cache import KVCache

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_COPY_BYTES = 256 * MIB
_LEAST_SHARE = 0.9  # of the wall time that a repeat must have had the processor


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeSpeed:
    """Speed of one way to decode.

    Attributes:
        name: the way.
        batch: rows of a pass.
        pass_bytes: bytes that the pass must read.
        wall_s: median seconds of the repeats that had the processor to themselves; None: there was
            none.
        cpu_s: median process seconds of all repeats, over all threads; 0 on a GPU.
        repeats: repeats made.
        disturbed: repeats during which something else held the processor.
    """

    name: str
    batch: int
    pass_bytes: int
    wall_s: float | None
    cpu_s: float
    repeats: int
    disturbed: int

    @property
    def pass_s(self) -> float:
        """Seconds of a pass: wall time, or process time per thread where every repeat was
        disturbed.
        """
        return self.cpu_s / torch.get_num_threads() if self.wall_s is None else self.wall_s

    @property
    def tokens_per_s(self) -> float:
        """Tokens of all rows."""
        return self.batch / self.pass_s

    @property
    def bytes_per_s(self) -> float:
        """Achieved bandwidth."""
        return self.pass_bytes / self.pass_s


def pass_bytes(model: Llama, context: int, batch: int = 1) -> int:
    """What a decoding pass must read: weights, and keys and values of every row's context, itself
    included.

    Every expert counts as read, and a window's keys only up to its length.
    """
    cache = model.new_cache(1, batch=batch)
    per_slot = (cache.keys[0].nbytes + cache.values[0].nbytes) if model.config.layers else 0
    windows = (model.config.block(layer).attention.window for layer in range(model.config.layers))
    return model.weight_bytes + per_slot * sum(
        min(context, window or context) for window in windows
    )


def filled_cache(model: Llama, context: int, batch: int = 1) -> KVCache:
    """A cache of `context` committed slots whose contents are random: what a pass costs does not
    depend on them.
    """
    capacity = -(-(context + 1) // BUCKET_SLOTS) * BUCKET_SLOTS
    cache = model.new_cache(capacity, batch=batch)
    cache.keys.normal_()
    cache.values.normal_()
    cache.commit(context)
    return cache


def own_passes(model: Llama, context: int, batch: int = 1, *, static: bool = False) -> Call:
    """One decoding pass at a context of `context` tokens, this one included; nothing is
    committed.
    """
    cache = filled_cache(model, context - 1, batch)
    tokens = torch.full((batch, 1), 5)
    if static:
        return partial(StaticPass(model, cache, tokens=1, slots=cache.capacity).run, tokens)
    return partial(model.forward, tokens, cache)


def copy_bytes_per_s(device: torch.device) -> float:
    """Bandwidth of a plain copy of large buffers, bytes read and written."""
    case = next(
        case
        for case in copy_cases(device, sizes_bytes=[_COPY_BYTES])
        if case.shape["operation"] == "copy"
    )
    call = case.build(1)["torch"]().calls[0]
    return (
        case.bytes / decode_speeds({"copy": call}, device, bytes_read=0, repeats=9)["copy"].pass_s
    )


def decode_speeds(
    calls: Mapping[str, Call],
    device: torch.device,
    *,
    bytes_read: int,
    batch: int = 1,
    repeats: int = 15,
) -> dict[str, DecodeSpeed]:
    """Time passes alternately, after a first of each.

    Args:
        calls: a pass of every way to decode.
        device: where they run.
        bytes_read: bytes that each pass must read.
        batch: rows of a pass.
        repeats: repeats of each.
    """
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for turn in range(repeats + 1):
        for name, call in calls.items():
            sample = _timed(call, device)
            if turn:  # the first loads, packs and captures
                samples[name].append(sample)
    speeds = {}
    for name, taken in samples.items():
        calm = [wall for wall, cpu in taken if device.type != "cpu" or cpu >= _LEAST_SHARE * wall]
        speeds[name] = DecodeSpeed(
            name=name,
            batch=batch,
            pass_bytes=bytes_read,
            wall_s=median(calm) if calm else None,
            cpu_s=median(cpu for _, cpu in taken),
            repeats=len(taken),
            disturbed=len(taken) - len(calm),
        )
    return speeds


def _timed(call: Call, device: torch.device) -> tuple[float, float]:
    """Wall and process seconds of one call."""
    synchronize(device)
    cpu, wall = time.process_time(), time.perf_counter()
    call()
    synchronize(device)
    return time.perf_counter() - wall, time.process_time() - cpu


def report(speeds: Mapping[str, DecodeSpeed], copy_rate: float) -> list[str]:
    """A line per way: times, tokens/s, achieved bandwidth and its ratio to a copy's."""
    lines = []
    for speed in speeds.values():
        wall = (
            "every repeat disturbed" if speed.wall_s is None else f"{speed.wall_s / MILLI:8.3f} ms"
        )
        lines.append(
            f"{speed.name:20s} {wall}, CPU {speed.cpu_s / MILLI:8.3f} ms ({speed.disturbed} of"
            f" {speed.repeats} disturbed)  {speed.tokens_per_s:9.1f} tokens/s "
            f" {speed.bytes_per_s / GIGA:8.1f} GB/s, {speed.bytes_per_s / copy_rate:.2f} of a"
            f" copy's {copy_rate / GIGA:.1f}"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m real_runs.decode_speed", description=__doc__)
    parser.add_argument(
        "--model", help="GGUF file or Hugging Face folder; the shipped SmolLM2 by default"
    )
    parser.add_argument("--like", help="random weights in the shapes of this model instead")
    parser.add_argument("--layers", type=int, help="with --like: the first so many layers")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="fp32")
    parser.add_argument(
        "--context",
        type=int,
        default=512,
        help="tokens that the pass's token sees, itself included",
    )
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument(
        "--transformers", action="store_true", help="Transformers' passes over the same weights too"
    )
    options = parser.parse_args(arguments)
    try:
        lines = _measured(options)
    except RooftreeError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    print("\n".join(lines))
    return 0


def _measured(options: argparse.Namespace) -> list[str]:
    if min(options.context, options.batch, options.threads, options.repeats) < 1:
        raise InputError("context, batch, threads and repeats must be >= 1", key="context")
    torch.set_num_threads(options.threads)
    device, dtype = checked_device(options.device), DTYPES[options.dtype]
    if options.like:
        weights = weights_like(
            load_model(options.like), device=device, dtype=dtype, layers=options.layers
        )
    else:
        weights = load_weights(find_model(options.model))
    model = Llama(weights, device=device, dtype=dtype)
    calls: dict[str, Callable[[], Any]] = {
        "eager": own_passes(model, options.context, options.batch)
    }
    calls["static"] = own_passes(model, options.context, options.batch, static=True)
    if options.transformers:
        if options.batch > 1 or device.type != "cpu":
            raise InputError(
                "Transformers is timed at batch 1 on a CPU", key="transformers", value=options.batch
            )
        for attention in ATTENTIONS:
            theirs = transformers_model(weights, attention, dtype)
            calls[f"transformers {attention}"] = transformers_passes(theirs, options.context)
    read = pass_bytes(model, options.context, options.batch)
    speeds = decode_speeds(
        calls, device, bytes_read=read, batch=options.batch, repeats=options.repeats
    )
    head = (
        f"{device_title(device)}, {options.threads} threads, {options.dtype}, context {options.context},"
        f" batch {options.batch}"
    )
    return [head, f"{read / GIGA:.3f} GB per pass", *report(speeds, copy_bytes_per_s(device))]


if __name__ == "__main__":
    sys.exit(main())
