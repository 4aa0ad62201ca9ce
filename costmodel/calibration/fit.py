"""Which constants of a device make its profile time measured rows best?

Robust least squares on log ratios (soft L1), bounded, from several starts; constants that the rows
cannot tell stay where the profile has them. Leaves out which rows to use and how well the outcome
does (`calibrate`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from costmodel.calibration.measurements import Measurements
from costmodel.calibration.parameters import (
    CONTEXT_ROW_TILES,
    GROUPS,
    MOE_TILES,
    TRTLLM_MOST_BYTES,
    Parameter,
    group_of,
)
from costmodel.calibration.timing import VerifyForm, timed
from costmodel.passes.kernels.communication import VLLM_MOST_BYTES
from costmodel.passes.ops import Array
from hardware_profiles.errors import InputError
from hardware_profiles.fitted.constants import NEUTRAL
from hardware_profiles.profile import Device

SOFT_RATIO = 0.05  # errors beyond this count linearly instead of squared
# pull towards the profile's value, per row and per width of a parameter's range
PRIOR_WEIGHT = 0.003
LEAST_PULL = 0.1  # of the same, where rows are few: a tenth of a range weighs like an error of 1 %
CLEARLY = 0.05  # by which a step of a constant has to lower the cost
WORTH = 0.2  # by which a further mechanism has to
LEAST_ROWS = 3  # rows per parameter below which a group is left as it is

Predict = Callable[[Device], Array]


def with_constants(device: Device, values: Mapping[str, float]) -> Device:
    """The device with some constants replaced.

    Args:
        device: to start from.
        values: by name, such as `gemm.launch_s`; in SI.

    Raises:
        InputError: a value out of the constant's range.
    """
    return replace(device, constants=device.constants.changed(values))


def fitted(
    device: Device, rows: Measurements, *, dtype: str, form: VerifyForm, matrices: Array | None
) -> dict[str, float]:
    """Constants fitted to the rows of one operation; empty where there are too few.

    Args:
        device: profile to start from.
        rows: measurements to fit, already filtered.
        dtype: format of operands.
        form: of `attention_verify`: whether the kernel splits the cache.
        matrices: weight matrices of an expert by row.
    """
    if rows.operation == "allreduce":
        return _allreduce(device, rows)
    parameters = GROUPS[group_of(rows.operation, form)]
    if len(rows) < LEAST_ROWS * len(parameters):
        return {}

    def predict(d: Device) -> Array:
        return timed(d, rows, dtype=dtype, verify=form, matrices=matrices)[0]

    if rows.operation == "moe":
        return _experts(device, parameters, rows.seconds, predict)
    steps = CONTEXT_ROW_TILES if rows.operation == "attention_context" else ()
    return _fewest(device, parameters, rows.seconds, predict, "context.row_tile", steps)


def _experts(
    device: Device, parameters: Sequence[Parameter], seconds: Array, predict: Predict
) -> dict[str, float]:
    """The parameters of expert layers and their tiles; what widths cost that are no multiple of 16
    only where it lowers the cost clearly.
    """
    few = [parameter for parameter in parameters if parameter.name not in NEUTRAL]
    without = {name.name: NEUTRAL[name.name] for name in parameters if name.name in NEUTRAL}
    plain = with_constants(device, without)
    values, cost = _best(plain, few, seconds, predict, MOE_TILES)
    more, less = _best(device, parameters, seconds, predict, MOE_TILES)
    return more if less < (1.0 - CLEARLY) * cost else values | without


def _fewest(
    device: Device,
    parameters: Sequence[Parameter],
    seconds: Array,
    predict: Predict,
    name: str,
    steps: Sequence[float],
) -> dict[str, float]:
    """The parameters, those with a neutral value only where they lower the cost by `WORTH`."""
    few = [parameter for parameter in parameters if parameter.name not in NEUTRAL]
    without = {
        parameter.name: NEUTRAL[parameter.name]
        for parameter in parameters
        if parameter.name in NEUTRAL
    }
    values, cost = search(with_constants(device, without), few, seconds, predict)
    if not without:
        return values
    more, less = _stepped(device, parameters, seconds, predict, name, steps)
    return (
        more
        if less < (1.0 - WORTH) * cost
        else values | without | ({name: NEUTRAL[name]} if steps else {})
    )


def search(
    device: Device, parameters: Sequence[Parameter], seconds: Array, predict: Predict
) -> tuple[dict[str, float], float]:
    """The parameters that minimise the soft-L1 cost of log(predicted/measured), and that cost per
    row.

    Args:
        device: profile to start from; a second start takes each parameter's own.
        parameters: what to fit.
        seconds: measured, all > 0.
        predict: seconds by row of a device.

    Raises:
        InputError: scipy is not installed.
    """
    least_squares = _least_squares()
    low, high = (np.array([getattr(p, side) for p in parameters]) for side in ("low", "high"))
    width = high - low
    present = np.array([device.constants.number(p.name) for p in parameters], dtype=np.float64)
    prior = np.clip(np.where(np.isfinite(present), present, high), low, high)
    measured = np.log(seconds)
    pull = max(PRIOR_WEIGHT * np.sqrt(len(seconds)), LEAST_PULL)

    def errors(unit: npt.NDArray[np.float64]) -> Array:
        values = dict(zip((p.name for p in parameters), (low + unit * width).tolist(), strict=True))
        ratio = np.log(predict(with_constants(device, values))) - measured
        return np.concatenate([ratio, pull * (unit - (prior - low) / width)])

    best = None
    for start in (prior, np.array([p.start for p in parameters])):
        unit = np.clip((start - low) / width, 1e-3, 1.0 - 1e-3)
        solution = least_squares(
            errors, unit, bounds=(0.0, 1.0), loss="soft_l1", f_scale=SOFT_RATIO, x_scale=0.1
        )
        if best is None or solution.cost < best.cost:
            best = solution
    assert best is not None
    values = (low + best.x * width).tolist()
    return dict(zip((p.name for p in parameters), values, strict=True)), float(best.cost) / len(
        seconds
    )


def _allreduce(device: Device, rows: Measurements) -> dict[str, float]:
    """Each library's constants from its own rows, and the ring's from large messages of all."""
    size, graphs = rows.columns["bytes"], rows.columns["graphs"] > 0
    constants: dict[str, float] = {}

    def part(group: str, which: npt.NDArray[np.bool_]) -> None:
        nonlocal device, constants
        mine = rows.select(which)
        if len(mine) < len(GROUPS[group]) + 2:
            return
        values, _ = search(device, GROUPS[group], mine.seconds, lambda d: timed(d, mine)[0])
        constants |= values
        device = with_constants(device, values)

    rings = (rows.part == "nccl") | (graphs & (size >= VLLM_MOST_BYTES))
    theirs = rows.part == "trtllm"
    if theirs.sum() > len(GROUPS["trtllm"]) + 2:
        values = _trtllm(device, rows.select(theirs | rings))
        constants |= values
        device = with_constants(device, values)
    else:
        part("nccl", rings)
    part("allreduce", (rows.part == "vllm") & graphs & (size < VLLM_MOST_BYTES))
    part("eager", (rows.part == "vllm") & ~graphs)
    return constants


def _trtllm(device: Device, rows: Measurements) -> dict[str, float]:
    """TensorRT-LLM's constants, the ring's that it hands over to, and the message from which it
    does.
    """
    parameters = (*GROUPS["trtllm"], *GROUPS["nccl"])
    thresholds = tuple(reversed(TRTLLM_MOST_BYTES))
    return _stepped(
        device,
        parameters,
        rows.seconds,
        lambda d: timed(d, rows)[0],
        "trtllm.most_bytes",
        thresholds,
    )[0]


def _stepped(
    device: Device,
    parameters: Sequence[Parameter],
    seconds: Array,
    predict: Predict,
    name: str,
    steps: Sequence[float],
) -> tuple[dict[str, float], float]:
    """The parameters, one more constant that takes one of a few values, and the cost.

    A later value has to lower the cost by `CLEARLY`: few rows tell little about such steps.
    """
    if not steps:
        return search(device, parameters, seconds, predict)
    return _best(device, parameters, seconds, predict, [{name: value} for value in steps])


def _best(
    device: Device,
    parameters: Sequence[Parameter],
    seconds: Array,
    predict: Predict,
    choices: Sequence[Mapping[str, float]],
) -> tuple[dict[str, float], float]:
    """The parameters, the further constants with which they fit best, and the cost; later choices
    as in `_stepped`.
    """
    best: tuple[dict[str, float], float] | None = None
    for choice in choices:
        values, cost = search(with_constants(device, choice), parameters, seconds, predict)
        if best is None or cost < (1.0 - CLEARLY) * best[1]:
            best = (values | dict(choice), cost)
    assert best is not None
    return best


def _least_squares() -> Callable[..., Any]:
    try:
        from scipy.optimize import least_squares  # type: ignore[import-untyped]
    except ImportError:
        raise InputError("needs scipy: pip install scipy", key="calibrate") from None
    return least_squares  # type: ignore[no-any-return]
