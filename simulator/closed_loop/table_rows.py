"""What do users of every row of a table of serving runs see?

A row names a model, a system, an engine, number formats, lengths and a concurrency, in the columns
that published tables of measured runs carry. What the model cannot answer gets a reason instead of
a number. Leaves out reading files (the app) and values by column (`simulator.closed_loop.columns`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.architectures.architecture import Architecture
from costmodel.architectures.library import named_model
from costmodel.engine_library import load_engine
from costmodel.engines.record.engine import Engine
from costmodel.parallel.pools import ServingPlan
from costmodel.passes.deployment import Deployment
from costmodel.passes.precision import Precision, Stored
from hardware_profiles.errors import InputError, RooftreeError, UnknownNameError
from hardware_profiles.loader import device_names, load_device
from hardware_profiles.profile import Device
from hardware_profiles.units import MILLI
from simulator.closed_loop.columns import REQUIRED, read_columns
from simulator.closed_loop.constants import Constants, with_constants
from simulator.closed_loop.drafting import Drafting, published_drafting
from simulator.closed_loop.launches import LaunchedRow, launched
from simulator.closed_loop.pools import Timers, plan_timer, serve_pools
from simulator.closed_loop.row_plans import plan_of_row, users_of_row
from simulator.closed_loop.serve import Served, serve, served_interval
from simulator.closed_loop.users import Users
from simulator.timing.cost_timer import CostModelTimer

_SYSTEMS = {
    "a100-sxm": "a100-sxm-80",
    "gh200-sxm": "gh200-96",
    "h200": "h200-sxm",
    "h100": "h100-sxm",
}
# number formats as tables of serving runs write them -> (weights, arithmetic)
_FORMATS: Mapping[str, tuple[str, str]] = {
    "bf16": ("bf16", "bf16"),
    "bfloat16": ("bf16", "bf16"),
    "fp16": ("bf16", "bf16"),
    "float16": ("bf16", "bf16"),
    "half": ("bf16", "bf16"),
    "fp8": ("fp8", "fp8"),
    "fp8_block": ("fp8-block", "fp8"),
    "fp8_static": ("fp8", "fp8"),
    "fp8_ootb": ("fp8", "fp8"),
    "int8": ("int8", "int8"),
    "sq": ("int8", "int8"),
    "int8_wo": ("int8", "bf16"),
    "int4": ("int4", "bf16"),
    "int4_wo": ("int4", "bf16"),
    "w4afp8": ("int4", "fp8"),
    "fp4": ("fp4", "fp4"),
    "nvfp4": ("fp4", "fp4"),
    "mxfp4": ("fp4", "fp4"),
    "w4a16_mxfp4": ("fp4", "bf16"),
    "w4a8_mxfp4_mxfp8": ("fp4", "fp8"),
}
# model types whose 4-bit checkpoints hold routed experts in that format and the rest in 16 bits:
# MXFP4, 4.25 bits (gpt-oss model card, arXiv:2508.10925)
_EXPERTS_ALONE = {"gpt_oss": "fp4-g32"}
# model types whose 8-bit checkpoints have scales by block, whatever a table calls them
# (Qwen/Qwen3-32B-FP8, config.json: weight_block_size 128 x 128; NVIDIA's recipes/qwen3-32b-fp8 in
# ai-dynamo/dynamo serve that one)
_SCALED_BY_BLOCK = frozenset({"qwen3", "qwen3_moe"})
# arithmetic -> what stands in for it where the device has no such peak: wider, with weights
# unpacked on the way
_WIDER = {"fp4": "bf16", "fp8": "bf16", "int8": "bf16"}


@dataclass(frozen=True, kw_only=True, slots=True)
class RowAnswer:
    """The answer to a row; times are None where there is a reason.

    Args:
        id: of the row.
        ttft_ms: mean time to first token, milliseconds.
        ttft_median_ms: median of it.
        tpot_ms: mean time per output token after the first, milliseconds; None for outputs of one
            token.
        ttft_ms_interval: 80 % interval of the mean; the median's is as wide.
        tpot_ms_interval: 80 % interval.
        reason: why there is no answer.
        seconds: of the run by operation; empty where there is no answer.
        ttft_seconds: of the mean time to first token, as in `Served`; empty where unknown.
    """

    id: str
    ttft_ms: float | None = None
    ttft_median_ms: float | None = None
    tpot_ms: float | None = None
    ttft_ms_interval: tuple[float, float] | None = None
    tpot_ms_interval: tuple[float, float] | None = None
    reason: str | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    ttft_seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Question:
    """A row made sense of; questions with equal `key` share the timers of their workers."""

    key: tuple[Any, ...]
    deployment: Deployment
    engine: Engine
    prompts: Engine
    plan: ServingPlan
    users: Users
    cuts: bool
    drafting: Drafting | None


def answer_rows(
    records: Sequence[Mapping[str, Any]],
    *,
    file: str,
    seed: int = 0,
    constants: Constants | None = None,
    progress: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> list[RowAnswer]:
    """Answer every row of a table, in order.

    Args:
        records: rows by column; absent columns, None and nan mean that the table does not say.
        file: where they come from, for messages.
        seed: of the draws behind the intervals.
        constants: in the place of those that were fitted to serving runs; None: as shipped.
        progress: called with the name of the file, and how many of how many rows are answered.

    Raises:
        InputError: a value that no table can mean (text for a number, a count below 0); names file,
            column and row.
    """
    parsed = [read_columns(record, file=file, row=index) for index, record in enumerate(records)]
    answers: list[RowAnswer] = [RowAnswer(id=row["id"]) for row in parsed]
    groups: dict[tuple[Any, ...], list[tuple[int, _Question]]] = {}
    for index, row in enumerate(parsed):
        try:
            question = _question(row, constants or {})
        except RooftreeError as error:
            answers[index] = replace(answers[index], reason=str(error))
            continue
        groups.setdefault(question.key, []).append((index, question))
    done, total = 0, sum(map(len, groups.values()))
    for members in groups.values():
        for index, answer in _answered(members, seed):
            answers[index] = replace(answer, id=parsed[index]["id"])
            done += 1
            progress(f"rows of {Path(file).name}", done, total)
    return answers


def _answered(members: list[tuple[int, _Question]], seed: int) -> Iterator[tuple[int, RowAnswer]]:
    """Answers of rows that differ in users, lengths, limits and plans alone: one timer of each
    worker's plan serves them all.

    Tables hold one run several times; equal questions are simulated once.
    """
    timers: Timers = {}
    answered: list[tuple[_Question, RowAnswer]] = []
    for index, q in members:
        equal = next((answer for other, answer in answered if other == q), None)
        if equal is None:
            equal = _answer(q, timers, seed)
            answered.append((q, equal))
        yield index, equal


def _answer(q: _Question, timers: Timers, seed: int) -> RowAnswer:
    try:
        served, timer = _served(q, timers)
    except RooftreeError as error:
        return RowAnswer(id="", reason=str(error))
    ttft, tpot = served_interval(served, timer, generator=np.random.default_rng(seed))
    single = q.users.output_tokens == 1
    return RowAnswer(
        id="",
        ttft_ms=served.ttft_s / MILLI,
        ttft_median_ms=served.ttft_median_s / MILLI,
        tpot_ms=None if single else served.tpot_s / MILLI,
        ttft_ms_interval=(ttft[0] / MILLI, ttft[1] / MILLI),
        tpot_ms_interval=None if single else (tpot[0] / MILLI, tpot[1] / MILLI),
        seconds=served.seconds,
        ttft_seconds=served.ttft_seconds,
    )


def _served(q: _Question, timers: Timers) -> tuple[Served, CostModelTimer]:
    if q.plan.prefill is not None:
        return serve_pools(
            q.deployment,
            q.engine,
            q.users,
            q.plan,
            prompts=q.prompts,
            timers=timers,
            cuts=q.cuts,
            drafting=q.drafting,
        )
    plan = q.plan.decode.plan
    timer = plan_timer(timers, q.deployment, q.engine, plan, cuts=q.cuts, drafting=q.drafting)
    own = replace(q.deployment, tensor_parallel=plan.tensor)
    served = serve(own, q.engine, q.users, timer=timer, plan=timer.plan, drafting=q.drafting)
    return served, timer


def _question(row: Mapping[str, Any], constants: Constants) -> _Question:
    missing = [name for name in REQUIRED if row[name] is None]
    if missing:
        raise InputError("the row does not say", key=missing[0])
    device = _device(row["system"])
    # never a path: a table must not choose which files are read
    architecture = named_model(row["model_path"].rstrip("/"))
    engine = with_constants(load_engine(row["backend"]), constants).on(
        device, row["backend_version"] or _tag(row["image"])
    )
    stated = formats_of_row(row, architecture=architecture, device=device)
    plan = plan_of_row(row, architecture, device, stated, engine=engine.name)
    worker = plan.decode.plan
    stated_row = replace(
        LaunchedRow.of({**row, "concurrency": users_of_row(row, plan)}),
        devices=worker.devices,
        ranks=worker.data,
        prompt_ranks=plan.prefill.plan.data if plan.prefill else 0,
    )
    launch = launched(engine, stated_row, model=architecture.name, device=device)
    plan = launch.spread(plan)
    drafting = None
    if stated_row.speculates:
        drafting = published_drafting(
            row["speculation"],
            model=architecture.name,
            draft_tokens=launch.draft_tokens(plan.decode.plan),
        )
    usual = "fp8" if launch.engine.kernels.fp8_cache and stated.label == "fp8" else "bf16"
    deployment = Deployment(
        architecture=architecture,
        device=device,
        precision=replace(stated, kv=launch.cache or usual),
    )
    kernels, overlaps = launch.engine.kernels, launch.engine.scheduling.overlapped_scheduling
    name = (architecture.name, device.name, launch.engine.name)
    return _Question(
        key=(
            *name,
            deployment.precision,
            overlaps,
            kernels.cut_bytes,
            kernels.quantised_cache_ratio(device),
            launch.cuts,
            drafting,
        ),
        cuts=launch.cuts,
        drafting=drafting,
        deployment=deployment,
        engine=launch.engine,
        prompts=launch.prompts,
        plan=plan,
        users=Users(
            users=stated_row.users,
            prompt_tokens=row["isl"],
            output_tokens=row["osl"],
            length_spread=launch.length_spread,
            tokenise_s=launch.tokenise_s,
            cold=launch.cold,
        ),
    )


def _tag(image: str | None) -> str | None:
    """The version that the tag of an engine's own image names."""
    return image.rsplit(":", 1)[1] if image and ":" in image and "ai-dynamo" not in image else None


def _device(system: str) -> Device:
    name = system.casefold().replace("_", "-")
    name = _SYSTEMS.get(name, name)
    if name not in device_names():  # never a path: a table must not choose which files are read
        raise UnknownNameError("system", system, device_names())
    return load_device(name)


def formats_of_row(
    row: Mapping[str, Any], *, architecture: Architecture, device: Device
) -> Precision:
    """Formats of weights and arithmetic: the experts' of a mixture, else the matrix products', else
    the row's.

    Checkpoints of `_EXPERTS_ALONE` hold nothing else in 4 bits, whatever a table calls them;
    kernels on devices with 4-bit matrix units read them beside 8-bit activations (FlashInfer's in
    vLLM and SGLang, TensorRT-LLM's own), others beside 16-bit ones (Marlin). Those of
    `_SCALED_BY_BLOCK` scale 8-bit weights by block.
    """
    moe = architecture.blocks[-1][0].feed_forward.is_moe
    modes = (
        row["moe_quant_mode"] if moe else None,
        row["gemm_quant_mode"],
        row["precision"],
        "bf16",
    )
    mode = next(name for name in modes if name)
    name = mode.casefold()
    if name not in _FORMATS:
        raise UnknownNameError("number format", mode, list(_FORMATS))
    if name == "fp8" and architecture.model_type in _SCALED_BY_BLOCK:
        name = "fp8_block"
    weights, arithmetic = _FORMATS[name]
    alone = _EXPERTS_ALONE.get(architecture.model_type) if weights == "fp4" else None
    if alone is not None:
        native = "fp4" in device.peak_flops_per_s and arithmetic != "bf16"
        weights, arithmetic = alone, "fp8" if native else "bf16"
    if arithmetic not in device.peak_flops_per_s:
        arithmetic = _WIDER.get(arithmetic, arithmetic)
    device.peak(arithmetic)
    if alone is not None:
        return Precision(experts=Stored(weights, arithmetic), name=weights)
    called = "fp8" if weights == "fp8-block" else weights
    return Precision(weights=weights, activations=arithmetic, name=called)
