"""What does this machine have, and what of rooftree would run on it?

Devices, threads, memory, libraries, optional engines and attention back ends, and model weights,
each looked for and never changed. Leaves out speed (`real_runs.calibration.device`).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from hardware_profiles.errors import InputError
from hardware_profiles.units import GIB, KIB
from real_runs.models.loading.weights import find_model

State = Literal["here", "absent", "broken"]
LIBRARIES = {
    "torch": "record, kernels, campaign, calibrate and validate",
    "transformers": "tokenizers; runs of its own assisted generation",
    "safetensors": "model folders",
    "gguf": "model files of llama.cpp",
    "scipy": "calibrate and validate",
    "plotly": "pages with plots",
    "streamlit": "the dashboard",
}
BACK_ENDS = {
    "flash_attn": "FlashAttention 2 in kernels",
    "flash_attn_interface": "FlashAttention 3 in kernels",
    "flashinfer": "FlashInfer in kernels",
    "vllm": "exports can be tried here",
    "sglang": "exports can be tried here",
    "llama_cpp": "llama.cpp from Python",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that was looked for.

    Attributes:
        what: name.
        state: here, absent or broken.
        detail: version, size, or what is wrong.
        serves: what needs it.
    """

    what: str
    state: State
    detail: str
    serves: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """All findings by topic, and what would run.

    Attributes:
        machine: processor, threads, memory, devices.
        libraries: that parts of rooftree need.
        back_ends: optional ones.
        weights: models that real runs find by themselves.
        verbs: by verb, "" where it would run, else what is missing.
    """

    machine: tuple[Finding, ...]
    libraries: tuple[Finding, ...]
    back_ends: tuple[Finding, ...]
    weights: tuple[Finding, ...]
    verbs: dict[str, str]


def diagnose() -> Diagnosis:
    """Look at the machine."""
    libraries = tuple(_library(name, serves) for name, serves in LIBRARIES.items())
    weights = _weights()
    there = {library.what for library in libraries if library.state == "here"}
    model = weights.state == "here"
    needs: dict[str, tuple[set[str], bool]] = {
        "optimize, predict, replay, tree, export": (set(), False),
        "pages with plots": ({"plotly"}, False),
        "kernels, campaign": ({"torch"}, False),
        "calibrate this machine": ({"torch", "scipy"}, False),
        "record": ({"torch", "transformers"}, True),
        "validate": ({"torch", "transformers", "scipy"}, True),
        "dashboard": ({"streamlit", "plotly"}, False),
    }
    verbs = {}
    for verb, (wanted, weighty) in needs.items():
        missing = [
            *sorted(wanted - there),
            *(["model weights (--model)"] if weighty and not model else []),
        ]
        verbs[verb] = ", ".join(missing)
    return Diagnosis(
        machine=(_processor(), _threads(), _memory(), *_accelerators()),
        libraries=libraries,
        back_ends=tuple(_library(name, serves) for name, serves in BACK_ENDS.items()),
        weights=(weights,),
        verbs=verbs,
    )


def sees_gpu() -> bool:
    """Whether torch is here and sees a CUDA device."""
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def processor_name() -> str:
    """What the processor calls itself."""
    names = re.findall(r"model name\s*:\s*(.+)", _file("/proc/cpuinfo"))
    return names[0].strip() if names else platform.processor() or platform.machine()


def _processor() -> Finding:
    text = _file("/proc/cpuinfo")
    flags = set(" ".join(re.findall(r"^flags\s*:\s*(.+)", text, re.MULTILINE)[:1]).split())
    wide = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if flag in flags]
    return Finding(
        what="processor",
        state="here",
        detail=" ".join([processor_name(), *wide]),
        serves="real runs on the CPU",
    )


def _threads() -> Finding:
    usable = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    limit = os.environ.get("OMP_NUM_THREADS")
    detail = f"{usable} usable" + (f", OMP_NUM_THREADS={limit}" if limit else "")
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    busy = f", load {load:.1f}: timings would be disturbed" if load > 0.5 * usable else ""
    return Finding(
        what="threads", state="here", detail=detail + busy, serves="real runs take one by default"
    )


def _memory() -> Finding:
    memory = dict(re.findall(r"(MemTotal|MemAvailable):\s+(\d+) kB", _file("/proc/meminfo")))
    if not memory:
        return Finding(
            what="memory", state="absent", detail="cannot be read here", serves="sizes of operands"
        )
    total, free = (int(memory.get(name, 0)) * KIB / GIB for name in ("MemTotal", "MemAvailable"))
    return Finding(
        what="memory",
        state="here",
        detail=f"{free:.1f} of {total:.1f} GiB free",
        serves="sizes of operands",
    )


def _accelerators() -> tuple[Finding, ...]:
    if importlib.util.find_spec("torch") is None:
        return (
            Finding(
                what="accelerator",
                state="absent",
                detail="torch is not there to ask",
                serves="runs on a GPU",
            ),
        )
    if (why := _no_driver()) and sys.modules.get("torch") is None:
        return (Finding(what="accelerator", state="absent", detail=why, serves="runs on a GPU"),)
    import torch  # seconds, which only a machine with a driver is asked for

    if not torch.cuda.is_available():
        return (
            Finding(
                what="accelerator", state="absent", detail="torch sees none", serves="runs on a GPU"
            ),
        )
    return tuple(
        _gpu(torch.cuda.get_device_properties(index)) for index in range(torch.cuda.device_count())
    )


def _no_driver() -> str:
    """Why torch cannot see a GPU, from its build and the devices of drivers; empty where it may."""
    if _version("torch").endswith("+cpu"):
        return "torch is built for the CPU alone"
    drivers = [
        *Path("/dev").glob("nvidia[0-9]*"),
        *Path("/dev").glob("kfd"),
        *Path("/dev").glob("dxg"),
    ]
    return (
        ""
        if drivers or not sys.platform.startswith("linux")
        else "no driver has a device under /dev"
    )


def _gpu(properties: object) -> Finding:
    # loads torch, which sees the card here
    from real_runs.kernels.device_names import profile_of

    name = str(getattr(properties, "name", ""))
    memory_bytes = float(getattr(properties, "total_memory", 0))
    profile = profile_of(
        name,
        processors=getattr(properties, "multi_processor_count", None),
        memory_bytes=memory_bytes,
    )
    profiled = (
        f"profile {profile}"
        if profile
        else "no shipped profile: calibrate --base NEAREST makes one"
    )
    detail = f"{memory_bytes / GIB:.0f} GiB, {profiled}"
    return Finding(what=name, state="here", detail=detail, serves="runs on a GPU: --device cuda")


def _library(name: str, serves: str) -> Finding:
    if importlib.util.find_spec(name) is None:
        return Finding(what=name, state="absent", detail="not installed", serves=serves)
    return Finding(what=name, state="here", detail=_version(name), serves=serves)


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
    try:
        return importlib.metadata.version(_owners().get(name, [name])[0])
    except importlib.metadata.PackageNotFoundError:
        return "version unknown"


@cache
def _owners() -> Mapping[str, list[str]]:
    """Distributions by the modules that they install, for those that bear another name."""
    return importlib.metadata.packages_distributions()


def _weights() -> Finding:
    serves = "record, validate and decode jobs without --model"
    if importlib.util.find_spec("torch") is None:
        return Finding(
            what="SmolLM2-135M",
            state="absent",
            detail="torch is not there to load it",
            serves=serves,
        )
    try:
        source = find_model(None)
    except InputError as error:
        return Finding(what="SmolLM2-135M", state="absent", detail=error.message, serves=serves)
    size = source.path.stat().st_size / GIB if source.path.is_file() else 0.0
    return Finding(
        what=source.title, state="here", detail=f"{source.path.name}, {size:.2f} GiB", serves=serves
    )


def _file(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
