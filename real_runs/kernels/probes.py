"""Does a GPU do what measurements on it rest on?

One probe per question, each of seconds: who the card is, its roofs, clocks that can be trusted,
capture, every form of attention against the exact answer, a pass against torch's plain kernels,
experts and eight-bit products. A probe that raises is the finding, not the end. Leaves out running
each in a process of its own (`real_runs.gpu_doctor`).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from costmodel.architectures.library import load_model
from hardware_profiles.loader import load_device
from hardware_profiles.units import MICRO, TERA
from real_runs.decoding.tree import tree_mask, tree_positions
from real_runs.kernels import gemm, moe, step
from real_runs.kernels.attention import checked_forms, layer_shape
from real_runs.kernels.attention_forms import FORMS
from real_runs.kernels.device_names import profile_here
from real_runs.kernels.machine import driver_and_clocks, machine
from real_runs.kernels.operands import drawing
from real_runs.kernels.timing import Call, CaptureError, Effort, Flush, Measurement, measure
from real_runs.models.device import checked_device, device_title
from real_runs.models.graphs import StaticPass

State = Literal["ok", "slow", "wrong", "absent"]
LEAST_SHARE, MOST_SHARE = 0.60, 1.05  # of the datasheet
_MODEL, _EXPERTS = "llama-3.1-8b", "qwen3-30b-a3b"
_PASS_TOLERANCE = 0.03  # of two layers in bf16, against other kernels in bf16
_EFFORT = Effort(repeats=9, budget_s=0.1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeResult:
    """What a probe found.

    Attributes:
        probe: its name.
        state: "ok", "slow", "wrong" (numbers of it would not be true) or "absent".
        detail: in words and numbers.
        advice: what to do; "" where there is nothing.
        seconds: of the probe.
    """

    probe: str
    state: State
    detail: str
    advice: str = ""
    seconds: float = 0.0


Probe = Callable[[torch.device], ProbeResult]


def identity(place: torch.device) -> ProbeResult:
    """Name, profile, driver, clocks and libraries."""
    title, profile = device_title(place), profile_here(place)
    driver, clocks = driver_and_clocks(place)
    detail = f"{title}, driver {driver or 'unknown'}, torch {torch.__version__}; {clocks}"
    if profile:
        return ProbeResult(probe="identity", state="ok", detail=f"{detail}; profile {profile}")
    return ProbeResult(
        probe="identity",
        state="absent",
        detail=f"{detail}; no profile",
        advice="rooftree calibrate --here cuda --base NEAREST makes one",
    )


def roofs(place: torch.device) -> ProbeResult:
    """A copy and a square product against the datasheet."""
    here = machine(str(place), "bf16")
    rates = (
        f"copy {here.copy_bytes_per_s / TERA:.2f} TB/s, bf16 product"
        f" {here.gemm_flops_per_s / TERA:.0f} TFLOP/s"
    )
    if not here.profile:
        return ProbeResult(
            probe="roofs", state="ok", detail=f"{rates}; no datasheet to compare with"
        )
    profile = load_device(here.profile)
    shares = (
        here.copy_bytes_per_s / profile.bandwidth_bytes_per_s,
        here.gemm_flops_per_s / profile.peak("bf16"),
    )
    detail = f"{rates}: {shares[0]:.0%} and {shares[1]:.0%} of {profile.name}"
    if max(shares) > MOST_SHARE:
        return ProbeResult(
            probe="roofs",
            state="wrong",
            detail=detail,
            advice="the card is another one: name its --base",
        )
    if min(shares) < LEAST_SHARE:
        return ProbeResult(
            probe="roofs",
            state="slow",
            detail=detail,
            advice="look for other work, a power limit or heat on the card",
        )
    return ProbeResult(probe="roofs", state="ok", detail=detail)


def clock(place: torch.device) -> ProbeResult:
    """Whether cold takes longer than hot, and one call as long as each of sixteen."""
    here = machine(str(place), "bf16")
    width = max(
        64, int((here.cache_bytes / 8) ** 0.5) // 64 * 64
    )  # a matrix of a quarter of the cache
    weights = [torch.empty(width, width, device=place, dtype=torch.bfloat16) for _ in range(16)]
    for matrix in weights:
        matrix.normal_(generator=drawing(place))
    row = torch.ones(1, width, device=place, dtype=torch.bfloat16)
    calls: list[Call] = [partial(torch.nn.functional.linear, row, weight) for weight in weights]
    flush = Flush(here.cache_bytes, place) if place.type == "cuda" else None
    hot = _timed([calls[0]] * 16, place, None)
    cold, four = _timed(calls, place, flush), _timed(calls[:4], place, flush)
    detail = f"hot {hot / MICRO:.1f}, cold {cold / MICRO:.1f}, of four {four / MICRO:.1f} µs"
    if place.type == "cuda" and not (cold > 1.1 * hot and 0.7 < four / cold < 1.5):
        return ProbeResult(
            probe="clock",
            state="wrong",
            detail=detail,
            advice="caches are not evicted: report this card",
        )
    return ProbeResult(probe="clock", state="ok", detail=detail)


def capture(place: torch.device) -> ProbeResult:
    """A graph is captured, what cannot be is refused, and both work after that."""
    if place.type != "cuda":
        return ProbeResult(probe="capture", state="absent", detail=f"{place.type} has no graphs")
    numbers = torch.ones(256, device=place)
    measured = measure({"host": [lambda: numbers.sum().item()]}, place, _EFFORT)["host"]
    after = _timed([lambda: numbers + 1], place, None)
    drawn = float(torch.empty(64, device=place).normal_(generator=drawing(place)).abs().sum())
    detail = f"a read by the host is refused; a launch in a graph takes {after / MICRO:.1f} µs"
    if not isinstance(measured, CaptureError) or not drawn > 0:
        return ProbeResult(
            probe="capture",
            state="wrong",
            detail=f"a read by the host gave {measured}",
            advice="report it",
        )
    return ProbeResult(probe="capture", state="ok", detail=detail)


def attention(place: torch.device) -> ProbeResult:
    """Every form against the exact answer at small shapes, with the seconds that its first calls
    took.
    """
    layer, dtype = layer_shape(_MODEL), "bf16" if place.type == "cuda" else "fp32"
    right, wrong, absent = [], [], []
    for name in FORMS:
        if name == "flex":  # compiles for seconds per shape
            continue
        began = time.perf_counter()
        _, faults = checked_forms([name], layer, place, dtype)
        wall_s = time.perf_counter() - began
        fault = faults.get(name, "")
        if not fault:
            right.append(f"{name} ({wall_s:.1f} s)")
        elif "not installed" in fault or "does not run on" in fault:
            absent.append(name)
        else:
            wrong.append(f"{name}: {fault}")
    detail = f"right: {', '.join(right) or 'none'}; absent: {', '.join(absent) or 'none'}"
    if wrong or not right:
        advice = "the forms named are left out of campaigns"
        return ProbeResult(
            probe="attention", state="wrong", detail="; ".join([*wrong, detail]), advice=advice
        )
    return ProbeResult(probe="attention", state="ok", detail=detail)


def passes(place: torch.device) -> ProbeResult:
    """Two layers at an 8B shape, a chain and a tree, against torch's plain attention."""
    dtype = torch.bfloat16 if place.type == "cuda" else torch.float32
    architecture = replace(load_model(_MODEL).with_layers(2), vocab=8192)
    model, count, context = step._model(architecture, place, dtype), 8, 512
    parents = [-1, *((node - 1) // 2 for node in range(1, count))]
    tree: dict[str, Any] = {
        "positions": tree_positions(parents, context),
        "mask": tree_mask(parents, context).to(place),
    }
    tokens = torch.arange(count, device=place)[None]
    errors = {}
    layouts: dict[str, dict[str, Any]] = {"chain": {}, "tree": tree}
    for name, layout in layouts.items():
        cache = step._filled(model, context + count, 1)
        model.attends_plainly = False
        with sdpa_kernel(SDPBackend.MATH):
            exact = model.forward(tokens, cache, start=context, **layout).logits
        model.attends_plainly = True
        among: dict[str, Any] = (
            {"positions": tree["positions"], "among": tree["mask"][:, context:]} if layout else {}
        )
        fixed = StaticPass(
            model, cache, tokens=count, slots=context + count, settled=True, chain=not layout
        )
        fixed.load(tokens, starts=[context], **among)
        assert exact is not None
        errors[name] = float((fixed.replay() - exact).norm() / exact.norm())
    detail = ", ".join(f"{name} {error:.2%} off" for name, error in errors.items())
    if not max(errors.values()) < _PASS_TOLERANCE:
        return ProbeResult(
            probe="passes", state="wrong", detail=detail, advice="times of passes here mean nothing"
        )
    return ProbeResult(probe="passes", state="ok", detail=detail)


def products(place: torch.device) -> ProbeResult:
    """Grouped experts and eight-bit products, which check themselves."""
    hidden, layer = moe.expert_layer(_EXPERTS)
    grouped = moe.moe_cases(hidden, layer, place, "bf16", rows=[4], routings=["balanced"])[0]
    eight = gemm.gemm_cases([(512, 512)], place, "fp8", rows=[16])[0]
    cases = {"grouped experts": grouped.build(1)["grouped"], "fp8": eight.build(1)["scaled-mm"]}
    faults = []
    for name, build in cases.items():
        try:
            build().calls[0]()
        except Exception as error:
            faults.append(
                f"{name}: {type(error).__name__}: {str(error).strip().splitlines()[0][:120]}"
            )
    if faults:
        return ProbeResult(
            probe="products",
            state="absent",
            detail="; ".join(faults),
            advice="campaigns leave them out",
        )
    return ProbeResult(probe="products", state="ok", detail=" and ".join(cases))


PROBES: Mapping[str, Probe] = {
    "identity": identity,
    "roofs": roofs,
    "clock": clock,
    "capture": capture,
    "attention": attention,
    "passes": passes,
    "products": products,
}


def probed(name: str, device: str) -> ProbeResult:
    """Run a probe; what it raises is a finding."""
    began = time.perf_counter()
    try:
        result = PROBES[name](checked_device(device))
    except Exception as error:
        lines = str(error).strip().splitlines()
        detail = f"{type(error).__name__}: {lines[0][:300] if lines else ''}"
        result = ProbeResult(
            probe=name, state="wrong", detail=detail, advice="report this with the lines above"
        )
    return replace(result, seconds=round(time.perf_counter() - began, 2))


def _timed(calls: list[Call], place: torch.device, flush: Flush | None) -> float:
    measured = measure({"": calls}, place, _EFFORT, flush=flush)[""]
    if isinstance(measured, Measurement):
        return measured.median_s
    raise measured


def main() -> int:
    """Run the probe that standard input names and print its finding as JSON."""
    request: dict[str, Any] = json.load(sys.stdin)
    sys.stdout.write(json.dumps(asdict(probed(request["probe"], request["device"]))) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
