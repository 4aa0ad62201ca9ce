"""What are the constants of this engine on this machine? The front door: measure, fit, write.

Three files come of it: a device profile, a kernel trace of whole steps and prompts beside it, and
an engine file. They belong together: the steps hold all that lies between two tokens, so the
engine's own overheads are 0 and say so, but for what a prompt takes before and after its pass, and
what every accepted draft token adds. Each alone, beside another profile or engine, counts something
twice or not at all.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from costmodel.architectures.architecture import Architecture
from costmodel.architectures.library import load_model
from costmodel.engine_library import load_engine
from costmodel.engines.record.engine import ANY
from costmodel.engines.record.file import write_engine_file
from costmodel.engines.record.host import Host
from costmodel.engines.record.overhead import Overhead
from costmodel.passes.deployment import Deployment
from costmodel.passes.precision import precision
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.loader import device_names, load_device
from hardware_profiles.profile import Device
from hardware_profiles.writer import write_device
from real_runs.calibration.profile_names import engine_profile_name, profile_name
from real_runs.calibration.server.client import Launch, LiveClient, connected, launched_llama_cpp
from real_runs.calibration.server.fit import FitScore, fit_profile
from real_runs.calibration.server.law import StepLaw, step_law
from real_runs.calibration.server.measure import measure
from real_runs.calibration.server.rows import accepted_token_s, prompt_intake_s, rows_of
from real_runs.calibration.server.shapes import RoundPlan, TimedSample
from real_runs.models.loading.weights import find_model
from real_runs.models.processor import cpu_title
from real_runs.recording.log import RecordingLog
from real_runs.servers.address import Address
from real_runs.servers.identify import identify
from traces.storage.kernels import (
    KernelProvenance,
    KernelRow,
    KernelTrace,
    read_kernels,
    write_kernels,
)

ENGINE_FILE = "engine.toml"
_USERS = (1, 2, 4, 8, 16)  # at a time, where a server does not say how many it serves
_ROOM = 64  # tokens of a slot beyond the longest context: an answer with its last draft
_LOCAL = ("127.0.0.1", "localhost", "::1")
_CPU_BASE = "cpu-generic"


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerCalibration:
    """What a calibration found.

    Attributes:
        device: the profile.
        engine: the engine that was measured.
        law: costs per step, request and token.
        weight_bytes: that a step of one token reads.
        prompt_s: what a prompt takes beyond its pass.
        accepted_s: what an accepted draft token takes beside its pass; 0 where that was not seen.
        score: errors on passes that were not fitted.
        profile: TOML file of the profile.
        engine_file: TOML file of the engine.
        trace: kernel trace of steps and prompts.
        seconds: wall time of this run.
    """

    device: Device
    engine: str
    law: StepLaw
    weight_bytes: float
    prompt_s: float
    accepted_s: float
    score: FitScore
    profile: Path
    engine_file: Path
    trace: Path
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibrationTarget:
    """What is measured.

    Attributes:
        architecture: the model, with the format of its weights.
        engine: shipped name.
        launch: how a server is reached.
        plan: shapes.
    """

    architecture: Architecture
    engine: str
    launch: Launch
    plan: RoundPlan


def calibrate_server(
    *,
    out: Path,
    server: str | None = None,
    model: str | None = None,
    plan: RoundPlan | None = None,
    threads: int = 1,
    budget_s: float = 480.0,
    base: str | None = None,
    resume: bool = False,
    progress: Callable[[str], None] = lambda text: None,
) -> ServerCalibration:
    """Measure a server, and write its profile, its passes and its engine file.

    A draft model is measured as a server of its own, into the same folder and before its target:
    the trace keeps passes of other models and numbers of layers, the profile and the engine file
    are those of the last one.

    Args:
        out: folder for all files.
        server: address of one that runs; None starts llama.cpp's for every draft length.
        model: GGUF file or name of the model; None: the one that the server names, or SmolLM2-135M
            as installed.
        plan: shapes; None: those that the budget allows, for as many requests as a running server
            has slots.
        threads: CPU threads of a server that is started.
        budget_s: wall time, > 0; the round under way is finished block by block.
        base: profile to start from; None: this machine's where the server runs on it with a CPU.
        resume: go on in a folder that holds a part of it.
        progress: called with what is under way.

    Raises:
        InputError: no such server, model or profile, a folder with a part of another calibration,
            or too little was measured.
    """
    started = time.monotonic()
    chosen = plan or RoundPlan.within(budget_s)
    target = (
        _running(server, model, chosen, own=plan)
        if server
        else _started(model, chosen, out, threads)
    )
    start = load_device(base or _base(server, target.engine, threads))
    setup = {
        "what": "server calibration",
        "engine": target.engine,
        "model": target.architecture.name,
        "dtype": target.architecture.dtype,
        "layers": target.architecture.layers,
        "threads": threads,
        "contexts": list(target.plan.contexts),
        "requests": list(target.plan.requests),
        "drafts": list(target.plan.drafts),
    }
    out.mkdir(parents=True, exist_ok=True)
    part = out / f"samples-{target.architecture.name}-{target.architecture.layers}-layers.part"
    with RecordingLog(part, setup, resume=resume) as log:
        samples = measure(target.plan, target.launch, log, budget_s=budget_s, tell=progress)
    progress("fitting")
    calibration = written(samples, target, start, out, threads=threads, server=server)
    shutil.rmtree(out / "slots", ignore_errors=True)
    return replace(calibration, seconds=time.monotonic() - started)


def _started(model: str | None, plan: RoundPlan, out: Path, threads: int) -> CalibrationTarget:
    """llama.cpp, started for every draft length."""
    path = find_model(model).path
    if path.suffix.casefold() != ".gguf":
        raise InputError("must be a GGUF file", key="model", value=str(path))
    architecture = load_model(path)
    context = -(-(max(plan.contexts) + _ROOM) // 256) * 256

    def launch(drafts: int, accepts: bool) -> AbstractContextManager[LiveClient]:
        return launched_llama_cpp(
            path,
            drafts,
            accepts,
            slots=max(plan.requests),
            context=context,
            folder=out,
            threads=threads,
            vocabulary=architecture.vocab,
        )

    return CalibrationTarget(
        architecture=architecture, engine="llama.cpp", launch=launch, plan=plan
    )


def _running(
    url: str, model: str | None, usual: RoundPlan, *, own: RoundPlan | None
) -> CalibrationTarget:
    """A server that somebody else runs: its draft length is what it is, and is read off its
    answers.
    """
    named = model or identify(Address.parse(url, "server")).model
    try:
        architecture = load_model(named)
    except UnknownNameError as error:
        error.message += "; name the model that the server runs, or its file"
        raise
    client = connected(url, vocabulary=architecture.vocab)
    slots, room = client.server.slots or _USERS[-1], client.server.context or 1 << 20
    contexts = tuple(size for size in usual.contexts if size + _ROOM <= room)
    requests = tuple(size for size in _USERS if size <= slots)
    plan = own or RoundPlan(contexts=contexts, requests=requests, drafts=(0,))
    engine = load_engine("none" if client.server.kind == "openai" else client.server.kind).name

    def launch(drafts: int, accepts: bool) -> AbstractContextManager[LiveClient]:
        return nullcontext(client)

    return CalibrationTarget(architecture=architecture, engine=engine, launch=launch, plan=plan)


def _base(server: str | None, engine: str, threads: int) -> str:
    local = server is None or Address.parse(server, "server").host in _LOCAL
    if not local or engine != "llama.cpp":
        raise InputError("must name the profile of the device that the server runs on", key="base")
    own = profile_name(cpu_title(), threads)
    return own if own in device_names() else _CPU_BASE


def written(
    samples: list[TimedSample],
    target: CalibrationTarget,
    base: Device,
    out: Path,
    *,
    threads: int = 1,
    server: str | None = None,
) -> ServerCalibration:
    """Fit what was measured and write the three files; arguments as in `calibrate_server`.

    Raises:
        InputError: too little was measured.
    """
    architecture, formats = (
        target.architecture,
        precision(target.architecture.dtype, model=target.architecture, device=base),
    )
    plain = Deployment(architecture=architecture, device=base, precision=formats)
    intake_s, accepted_s = prompt_intake_s(samples), accepted_token_s(samples)
    rows = rows_of(samples, plain, intake_s=intake_s)
    law = step_law(rows)
    name = engine_profile_name(
        base.name if server else profile_name(cpu_title(), threads), target.engine
    )
    about = f"{target.engine} with {architecture.name} in {architecture.dtype}"
    device, score = fit_profile(base, rows, architecture, formats, name=name, about=about)
    trace, profile, engine_file = out / "kernels.parquet", out / f"{name}.toml", out / ENGINE_FILE
    _write_trace(rows, trace, device, target, threads)
    write_device(device, profile)
    passes = (
        f"in the passes of {name}, measured whole between two tokens of a stream, but for accepted"
        " tokens"
    )
    overhead = Overhead(
        engine=target.engine,
        versions="",
        step_s=0.0,
        accepted_s=accepted_s,
        spread_ratio=score.interpolated,
        source=passes,
    )
    host = Host(prompt_s=intake_s, source="time to the first token of a cached prompt, less a step")
    write_engine_file(engine_file, like=target.engine, overheads={ANY: overhead}, host=host)
    return ServerCalibration(
        device=device,
        engine=target.engine,
        law=law,
        weight_bytes=architecture.weight_values * formats.weight_bytes,
        prompt_s=intake_s,
        accepted_s=accepted_s,
        score=score,
        profile=profile,
        engine_file=engine_file,
        trace=trace,
        seconds=0.0,
    )


def _write_trace(
    rows: list[KernelRow], place: Path, device: Device, target: CalibrationTarget, threads: int
) -> None:
    """Write the rows beside those of other models that the trace holds already."""
    own = (target.architecture.name, target.architecture.layers)
    others = (
        [row for row in read_kernels(place).rows if (row.model, row.layers) != own]
        if place.exists()
        else []
    )
    provenance = KernelProvenance(
        device=cpu_title(),
        profile=device.name,
        threads=threads,
        recorder_version="rooftree",
        notes=(
            f"whole steps and prompts of {target.engine}, as a client sees them; the faster half of"
            " all rounds"
        ),
    )
    write_kernels(KernelTrace(rows=(*others, *rows), provenance=provenance), place)
