"""Which device profile says what a server's passes take?

Starts from the profile of the device and fits, to whole passes, what decides them: the shares of
bandwidth and arithmetic that matrix products reach with weights of this format, attention's time
per tile, and what a pass costs beside. The products' shares are the format's own
(`[formats.q4_1.gemm]`) where weights are in blocks of GGUF. Leaves out what measured passes leave
of these forms, which the fidelity `measured` interpolates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from costmodel.architectures.architecture import Architecture
from costmodel.calibration.fit import search, with_constants
from costmodel.calibration.parameters import Parameter
from costmodel.passes.deployment import Deployment
from costmodel.passes.forward import pass_cost
from costmodel.passes.measured import PROMPT, fit_grids
from costmodel.passes.ops import Array
from costmodel.passes.precision import Precision, main_format
from hardware_profiles.errors import InputError
from hardware_profiles.fitted.constants import CONSTANT_NAMES, SPLIT_CONSTANTS
from hardware_profiles.fitted.formats import WEIGHT_FORMATS, FormatGroup
from hardware_profiles.profile import Device, NumberProvenance
from traces.storage.kernels import KernelRow

LEAST_ROWS = 6
_LEAST_RATIO, _MOST_RATIO = 0.011, 0.95
_PARAMETERS = (
    Parameter(name="gemm.bandwidth_efficiency", low=0.002, high=1.9, start=0.2),
    Parameter(name="gemm.compute_efficiency", low=0.002, high=1.9, start=0.2),
    Parameter(name="gemm.single_ratio", low=1.0, high=6.0, start=1.5),
    Parameter(name="attention.compute_efficiency", low=0.002, high=1.9, start=0.2),
    Parameter(name="attention.bandwidth_efficiency", low=0.002, high=1.9, start=0.2),
    Parameter(name="context.compute_efficiency", low=0.002, high=1.9, start=0.2),
    Parameter(name="sampler.launch_s", low=0.0, high=0.05, start=1e-3),
    Parameter(name="sampler.row_s", low=0.0, high=5e-3, start=1e-4),
)
# On a CPU both roofs of a product add up, attention takes query rows one by one, and nothing is
# launched. Products of llama.cpp take four rows together and what is left row by row (`ggml_gemm_*`
# and `ggml_gemv_*`, ggml-cpu/repack.cpp).
_ON_CPU = {
    "gemm.norm": 1.0,
    "gemm.launch_s": 0.0,
    "gemm.block_rows": 4.0,
    "attention.padding_ratio": 0.0,
    **dict.fromkeys(
        (
            f"attention.{name}"
            for name in ("launch_s", "wave_s", "short_wave_s", "combine_s", "tile_s", "unit_s")
        ),
        0.0,
    ),
    **dict.fromkeys((f"context.{name}" for name in ("launch_s", "tile_s", "unit_s")), 0.0),
}
_GROUPS = ("gemm", "attention", "verify", "context", "sampler", "prefill")


@dataclass(frozen=True, kw_only=True, slots=True)
class FitScore:
    """How far passes that were not fitted stand from the profile's forms, and how well measured
    ones interpolate.

    Attributes:
        rows: passes.
        rows_fitted: of which constants were fitted.
        median: of |predicted / measured - 1| over the others.
        p90: its ninetieth percentile.
        interpolated: half width of the 80 % interval of a pass between measured ones, from leaving
            each out.
    """

    rows: int
    rows_fitted: int
    median: float
    p90: float
    interpolated: float


def fit_profile(
    base: Device,
    rows: Sequence[KernelRow],
    architecture: Architecture,
    precision: Precision,
    *,
    name: str,
    about: str,
) -> tuple[Device, FitScore]:
    """Fit to every other pass, score on the others.

    Args:
        base: profile of the device that the server runs on.
        rows: passes and prompts of this model, see `rows`.
        architecture: the model.
        precision: its formats.
        name: of the new profile.
        about: the engine and the machine, in words.

    Raises:
        InputError: fewer than `LEAST_ROWS` passes.
    """
    if len(rows) < LEAST_ROWS:
        rule = (
            f"too little was measured: {len(rows)} shapes, at least {LEAST_ROWS}; raise the budget"
        )
        raise InputError(rule, key="budget")
    form = main_format(precision.weights)
    start = _start(base, form)
    seconds = np.array([row.median_s for row in rows])

    def predict(device: Device, chosen: Sequence[KernelRow]) -> Array:
        return predicted(device, chosen, architecture, precision)

    order = np.lexsort(
        (
            [row.query_tokens for row in rows],
            [row.context for row in rows],
            [row.mask for row in rows],
        )
    )
    aside = np.zeros(len(rows), dtype=bool)
    aside[order[::2]] = True
    fitted = [row for row, chosen in zip(rows, aside, strict=True) if chosen]
    values, _ = search(
        start, _PARAMETERS, seconds[aside], lambda device: predict(_verifying(device), fitted)
    )
    values["prefill.compute_efficiency"] = min(values["gemm.compute_efficiency"], 1.0)
    fresh = _verifying(with_constants(start, values))
    guess, measured = predict(fresh, rows)[~aside], seconds[~aside]
    error, residual = np.abs(guess / measured - 1.0), np.abs(measured / guess - 1.0)
    grids = fit_grids(rows, fresh, architecture, precision)
    score = FitScore(
        rows=len(rows),
        rows_fitted=len(fitted),
        median=float(np.median(error)),
        p90=float(np.quantile(error, 0.9)),
        interpolated=grids.spread_ratio if grids is not None else float("nan"),
    )
    source = (
        f"fitted to {score.rows_fitted} of {score.rows} passes and prompts of {about}; on the"
        f" others median error {score.median:.1%}, ninetieth percentile {score.p90:.1%}"
    )
    origin = NumberProvenance(kind="measured", source=source[:1000])
    spread = float(np.clip(np.quantile(residual, 0.8), _LEAST_RATIO, _MOST_RATIO))
    return _profile(base, fresh, form, origin, spread, name=name, about=about), score


def predicted(
    device: Device, rows: Sequence[KernelRow], architecture: Architecture, precision: Precision
) -> Array:
    """Seconds of every row by the calibrated forms, in the order of the rows."""
    deployment = Deployment(
        architecture=architecture, device=device, precision=precision, fidelity="calibrated"
    )
    seconds = np.zeros(len(rows))
    for prompt in (False, True):
        places = [place for place, row in enumerate(rows) if (row.mask == PROMPT) == prompt]
        if places:
            b, n, c = (
                np.array([float(getattr(rows[place], key)) for place in places])
                for key in ("requests", "query_tokens", "context")
            )
            seconds[places] = pass_cost(
                deployment,
                batch=b,
                query_tokens=n,
                context=c,
                prefill=prompt,
                logits="last" if prompt else "all",
            ).total_s
    return seconds


def _start(base: Device, form: str) -> Device:
    """The profile before the fit: without constants of the format, and on a CPU with forms that
    hold there.
    """
    formats = {name: groups for name, groups in base.formats.items() if name != form}
    corrections = {
        name: correction
        for name, correction in base.constants.corrections.items()
        if name != "gemm"
    }
    own = replace(base, formats=formats, constants=replace(base.constants, corrections=corrections))
    return with_constants(own, _ON_CPU) if base.kind == "cpu" else own


def _verifying(device: Device) -> Device:
    """The device whose verification takes the constants of decoding, where that is the same
    kernel.
    """
    if device.kind != "cpu":
        return device
    decoding = device.constants.attention
    alike = {f"verify.{name}": getattr(decoding, name) for name in SPLIT_CONSTANTS}
    return with_constants(device, {**alike, "verify.mask_ratio": 0.5})


def _profile(
    base: Device,
    fresh: Device,
    form: str,
    origin: NumberProvenance,
    spread: float,
    *,
    name: str,
    about: str,
) -> Device:
    """The fitted constants in their places, with where they come from."""
    own = form in WEIGHT_FORMATS
    constants, provenance = fresh.constants, dict(base.provenance)
    residuals = {
        constant: constants.residual_ratio[constant] for constant in constants.residual_ratio
    }
    residuals |= dict.fromkeys(
        (constant for constant in _GROUPS if not (own and constant in ("gemm", "prefill"))), spread
    )
    formats = dict(fresh.formats)
    apart = [name for name in CONSTANT_NAMES if own and name.startswith(("gemm.", "prefill."))]
    if own:
        formats[form] = {
            group: FormatGroup(constants=constants.of(group), residual_ratio=spread)
            for group in ("gemm", "prefill")
        }
        constants = replace(constants, gemm=base.constants.gemm, prefill=base.constants.prefill)
        provenance |= {f"formats.{form}.{constant}": origin for constant in apart}
        provenance |= {
            f"formats.{form}.residual_ratio.{group}": origin for group in ("gemm", "prefill")
        }
    changed = [
        name for name in CONSTANT_NAMES if constants.number(name) != base.constants.number(name)
    ]
    fitted = [*(constant.name for constant in _PARAMETERS), "prefill.compute_efficiency", *changed]
    provenance |= {f"constants.{constant}": origin for constant in fitted if constant not in apart}
    groups = [constant for constant in _GROUPS if not (own and constant in ("gemm", "prefill"))]
    provenance |= {f"constants.residual_ratio.{group}": origin for group in groups}
    return replace(
        base,
        name=name,
        title=f"{base.title}, {about}"[:1000],
        constants=replace(constants, residual_ratio=residuals),
        formats=formats,
        provenance=provenance,
        constants_from=name,
        driver_names=(),
        calibrated=False,
    )
