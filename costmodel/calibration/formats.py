"""Where in a profile do constants go that were fitted to kernels of a narrow number format?

Beside those of 16 bits, which they leave as they were. Leaves out the fit (`calibrate`).
"""

from dataclasses import fields, replace
from typing import Any

from hardware_profiles.fitted.formats import FORMAT_OPERATIONS, FORMATS, FormatGroup
from hardware_profiles.profile import Device, NumberProvenance


def with_format(before: Device, dtype: str, fitted: Device) -> Device:
    """The fitted device, in which operations that ran in a narrow format left those of 16 bits
    alone.

    Args:
        before: the device as it was.
        dtype: the format that rows were measured in.
        fitted: `before.in_format(dtype)`, with fitted constants.
    """
    if dtype not in FORMATS:
        return fitted
    groups: dict[str, FormatGroup] = dict(before.formats.get(dtype, {}))
    origins: dict[str, NumberProvenance] = dict(fitted.provenance)
    was = before.in_format(dtype).constants
    for operation in FORMAT_OPERATIONS:
        own = fitted.constants.of(operation)
        if own != was.of(operation):
            groups[operation] = _group(fitted, operation)
        names = [f"{operation}.{constant.name}" for constant in fields(own)]
        for name in (*names, f"residual_ratio.{operation}"):
            if operation in groups:
                origins[f"formats.{dtype}.{name}"] = fitted.provenance[f"constants.{name}"]
            origins[f"constants.{name}"] = before.provenance[f"constants.{name}"]
    residuals, wide = fitted.constants.residuals, before.constants.residuals
    for operation in FORMAT_OPERATIONS:
        residuals = residuals.changed(operation, wide[operation], wide.regimes.get(operation, ()))
    narrow, wide_corrections = fitted.constants.corrections, before.constants.corrections
    corrections = {name: narrow[name] for name in narrow if name not in FORMAT_OPERATIONS}
    corrections |= {
        name: wide_corrections[name] for name in wide_corrections if name in FORMAT_OPERATIONS
    }
    kept: dict[str, Any] = {
        operation: before.constants.of(operation) for operation in FORMAT_OPERATIONS
    }
    constants = replace(fitted.constants, **kept, residual_ratio=residuals, corrections=corrections)
    formats = {**before.formats, dtype: groups} if groups else before.formats
    return replace(
        fitted,
        constants=constants,
        formats=formats,
        provenance=origins,
        calibrated=before.calibrated,
    )


def _group(fitted: Device, operation: str) -> FormatGroup:
    residuals = fitted.constants.residuals
    return FormatGroup(
        constants=fitted.constants.of(operation),
        residual_ratio=residuals[operation],
        regimes=tuple(residuals.regimes.get(operation, ())),
        correction=fitted.constants.corrections.get(operation),
    )
