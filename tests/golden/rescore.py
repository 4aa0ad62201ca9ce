"""How well does the present cost model time passes that were measured and kept?

Passes of validation runs, kept beside their report, and the whole passes that a calibration timed,
against the profile that they name, as it is now. A change of the cost model that makes these worse
is a regression. Leaves out acceptance, which no cost model changes, and new measurements.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.answers.settings import build_setting
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.method_library import load_method
from costmodel.passes.deployment import Deployment
from costmodel.passes.forward import pass_cost
from costmodel.passes.measured import add_results, measured_pass
from costmodel.passes.ops import Array
from costmodel.passes.precision import Precision
from hardware_profiles.errors import InputError
from hardware_profiles.loader import device_names, load_device
from real_runs.calibration.passes import pass_rows, predicted_passes
from real_runs.campaigns.results import kernel_files, offer_measured_passes
from real_runs.validation.own_loop.passes_file import COLUMNS, PASSES
from real_runs.validation.servers.configurations import DRAFT
from real_runs.validation.servers.steps_file import STEPS, rate, read_steps
from traces.storage.kernels import read_kernels


@dataclass(frozen=True, kw_only=True, slots=True)
class Rescore:
    """Errors of the present model on kept measurements: |predicted / measured - 1|.

    Attributes:
        what: "whole passes, calibrated" or "validation passes, <fidelity>".
        rows: measurements.
        median: error.
        p90: error.
    """

    what: str
    rows: int
    median: float
    p90: float


def rescore(folder: Path) -> list[Rescore]:
    """Score what a results folder holds; nothing where its profile is not shipped.

    Args:
        folder: `<device>/<date>`, with kernel traces, and a validation's report and passes where
            there are any.

    Raises:
        InputError: a damaged file.
    """
    if (folder / STEPS).exists():
        return rescore_served(folder)
    found = []
    for path in kernel_files(folder):
        trace = read_kernels(path)
        name = trace.provenance.profile
        for dtype in sorted({row.dtype for row in trace.rows if row.operation == "step"}):
            rows = pass_rows(trace.rows, dtype=dtype)
            if name in device_names() and dtype in load_device(name).peak_flops_per_s:
                predicted = predicted_passes(load_device(name), rows, dtype=dtype)
                measured = np.array([row.median_s for row in rows])
                found.append(_rescore(f"whole passes in {dtype}, calibrated", predicted, measured))
    report, passes = folder / "validation.json", folder / PASSES
    if report.exists() and passes.exists():
        found += _validation(_read(report), passes)
    return found


def rescore_served(folder: Path) -> list[Rescore]:
    """Score what a validation of an engine's server left: the report, the steps, and the
    calibration beside them.

    Args:
        folder: `<device>/<date>/<engine>`, with `validation.json`, `steps.parquet`, a profile,
            `kernels.parquet` and `engine.toml`.

    Raises:
        InputError: a damaged file.
    """
    report = _read(folder / "validation.json")
    about = report["about"]
    profile = folder / f"{about['profile']}.toml"
    add_results(folder)
    names = DeploymentNames(
        model=about["model"],
        device=str(profile),
        engine=str(folder / "engine.toml"),
        dtype=about["weights"],
        fidelity=about["fidelity"],
    )
    groups: dict[int, list[Any]] = {}
    for place, steps in read_steps(folder):
        groups.setdefault(place, []).append(steps)
    predicted, measured = [], []
    for place, own in groups.items():
        point = report["points"][place]
        method = point["drafter"] or "plain-decoding"
        by_model = method == DRAFT
        setting = build_setting(
            DecodingConfiguration(deployment=names, method="n-gram" if by_model else method)
        )
        if by_model:
            setting = replace(
                setting, overhead=setting.engine.overhead(load_method(DRAFT).drafted_by)
            )
        layers = about["draft_layers"] if by_model else 0
        predicted.append(rate(setting, layers, own, draft_tokens=point["draft_tokens"]))
        measured.append(point["measured"]["tokens_per_s"])
    return [_rescore("served configurations", np.array(predicted), np.array(measured))]


def as_json(scores: Sequence[Rescore]) -> dict[str, Any]:
    """By what was scored."""
    return {
        each.what: {key: value for key, value in asdict(each).items() if key != "what"}
        for each in scores
    }


def _validation(report: Mapping[str, Any], path: Path) -> list[Rescore]:
    import pyarrow.parquet as pq

    about = report["about"]
    if about["profile"] not in device_names():
        return []
    form = {"float32": "fp32", "bfloat16": "bf16"}[about["dtype"]]
    deployment = Deployment(
        architecture=load_model(about["model"]),
        device=load_device(about["profile"]),
        precision=Precision(weights=form, activations=form, kv=form),
        fidelity=about["fidelity"],
    )
    table = pq.read_table(path, columns=list(COLUMNS))
    values = {name: np.array(table.column(name).to_pylist()) for name in COLUMNS}
    predicted = np.zeros(len(table))
    for loop in np.unique(values["loop"]):
        for mask in np.unique(values["mask"][values["loop"] == loop]):
            mine = (values["loop"] == loop) & (values["mask"] == mask)
            sizes = {
                key: values[name][mine].astype(np.float64)
                for key, name in (
                    ("batch", "requests"),
                    ("query_tokens", "query_tokens"),
                    ("context", "context"),
                )
            }
            offset, slope = report["costs"]["verify"].get(str(loop), (0.0, 0.0))
            factor = np.exp(offset + slope * np.log2(sizes["query_tokens"]))
            predicted[mine] = _seconds(deployment, str(mask), **sizes) * factor
    return [
        _rescore(
            f"validation passes, {about['fidelity']}",
            predicted,
            values["seconds"].astype(np.float64),
        )
    ]


def _seconds(
    deployment: Deployment, mask: str, *, batch: Array, query_tokens: Array, context: Array
) -> Array:
    if deployment.fidelity == "measured":
        offer_measured_passes()
        cost = measured_pass(
            deployment, batch=batch, query_tokens=query_tokens, context=context, mask=mask
        )
    else:
        cost = pass_cost(deployment, batch=batch, query_tokens=query_tokens, context=context)
    return np.asarray(np.broadcast_to(cost.total_s, batch.shape))


def _rescore(what: str, predicted: Array, measured: Array) -> Rescore:
    error = np.abs(predicted / measured - 1.0)
    return Rescore(
        what=what,
        rows=len(error),
        median=float(np.median(error)),
        p90=float(np.quantile(error, 0.9)),
    )


def _read(path: Path) -> Mapping[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"must be the report of a validation ({error})", file=path) from None
    if not isinstance(value, Mapping) or not {"about", "costs"} <= set(value):
        raise InputError("must be the report of a validation", file=path)
    return value
