"""How well does a profile time a table of kernels, and what would it be after a fit to part of it?

Filters rows, fits constants to a seeded share of them, a quarter unless told otherwise, and scores
the others. Leaves out reading tables (`tables`) and writing profiles (`hardware_profiles.writer`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from costmodel.calibration.corrections import correction
from costmodel.calibration.fit import fitted, search, with_constants
from costmodel.calibration.formats import with_format
from costmodel.calibration.intervals import bounds_by_row, fitted_residuals, interval, part_labels
from costmodel.calibration.measurements import Measurements, together
from costmodel.calibration.parameters import GROUPS, group_of
from costmodel.calibration.timing import VerifyForm, expert_work, timed, timings
from costmodel.passes.kernels.timing import Timing
from costmodel.passes.ops import Array, Mask
from costmodel.passes.precision import BYTES_PER_VALUE
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.fitted.constants import OPERATIONS
from hardware_profiles.profile import Device, NumberProvenance

COLD_RATIO = 1.5  # bytes touched over the last-level cache, from which a row counts as cold
COLD_OPERATIONS = ("gemm", "attention_generation", "mla_generation", "moe")
FLOOR_S = 1e-6  # shorter times are launches and clock ticks
FLOOR_STEPS = 5.0  # so many steps of the table's rounding a time must have
FITTED_SHARE = 0.25
ANCHOR_SHARE = 0.05  # warm rows that join a fit, as a share of its cold ones
ANCHOR_RATIO = 0.1  # bytes over bandwidth over time, up to which a row's cache does not matter
FEW_ROWS = 200  # set aside, up to which residuals are those of rows left out in turn
FOLDS = 6
LEAST_SPLIT = 8  # rows below which nothing is set aside
# bytes over bandwidth over time, beyond which a layer cannot have moved the bytes
IMPOSSIBLE_RATIO = 1.1


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibrationScore:
    """How far predictions stand from measurements.

    Attributes:
        rows: of the operation in the tables.
        rows_used: that pass the filters.
        rows_fitted: that constants were fitted to.
        rows_scored: of the used rows, those not set aside for fitting; the numbers below are
            theirs.
        median: of |predicted / measured - 1|; NaN without rows.
        p90: its ninetieth percentile.
        p80_ratio: eightieth percentile of |measured / predicted - 1|.
        coverage: share of the scored rows inside the profile's 80 % interval.
        width_ratio: median width of that interval, upper less lower end of measured / predicted,
            over the median of |measured / predicted - 1|.
        form: of `attention_verify`, "split" or "unsplit"; "" for other operations.
        parts: the same by library of an all-reduce, or by routing of experts.
    """

    rows: int
    rows_used: int
    rows_fitted: int
    rows_scored: int
    median: float
    p90: float
    p80_ratio: float
    coverage: float
    width_ratio: float
    form: str = ""
    parts: Mapping[str, "CalibrationScore"] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """What a calibration leads to.

    Attributes:
        device: fitted, or as it was given.
        scores: by operation.
    """

    device: Device
    scores: Mapping[str, CalibrationScore]


def calibrate(
    tables: Sequence[Measurements],
    device: Device,
    *,
    fit: bool = True,
    dtype: str = "bf16",
    seed: int = 0,
    share: float = FITTED_SHARE,
    progress: Callable[[str], None] = lambda text: None,
) -> Calibration:
    """Score a profile on tables, after a fit of its constants to a quarter of the rows where `fit`
    is set.

    Args:
        tables: measurements of one device.
        device: its profile.
        fit: fit constants; else the profile is scored as it is, on the same rows.
        dtype: number format whose rows are used; bf16 and fp16 count as one.
        seed: of the split into the rows that are fitted to, by default a quarter, and those that
            are scored.
        share: of the rows to fit to, in (0, 1).
        progress: called with what is being done.

    Raises:
        UnknownNameError: an unknown dtype.
        InputError: a dtype that the device lacks, or a share out of its range.
    """
    if not 0.0 < share < 1.0:
        raise InputError("must lie between 0 and 1", key="share", value=share)
    if dtype not in BYTES_PER_VALUE:
        raise UnknownNameError("number format", dtype, list(BYTES_PER_VALUE))
    device.peak(dtype)
    scores, narrow = {}, device.in_format(dtype)
    for operation, rows in together(tables).items():
        progress(f"{operation}: {len(rows)} rows")
        narrow, scores[operation] = _operation(
            narrow, rows, fit=fit, dtype=dtype, seed=seed, share=share
        )
    return Calibration(device=with_format(device, dtype, narrow) if fit else device, scores=scores)


def usable(device: Device, rows: Measurements, *, dtype: str = "bf16") -> Mask:
    """Rows that can be fitted and scored: the dtype's, above the noise floor, and cold where that
    matters.

    Decode operations (`COLD_OPERATIONS`) must touch at least `COLD_RATIO` times the last-level
    cache: real passes find their weights and caches cold, benchmarks that repeat one shape do not.

    Args:
        device: profile.
        rows: measured, of one operation.
        dtype: format of operands.
    """
    kept = _legible(rows, dtype) & rows.cold
    if rows.operation in COLD_OPERATIONS:
        touched = timed(
            device, rows, dtype=dtype, matrices=expert_matrices(device, rows, dtype=dtype)
        )[1]
        kept &= touched >= COLD_RATIO * device.cache_bytes
    return np.asarray(kept)


def _legible(rows: Measurements, dtype: str) -> Mask:
    sixteen = {"bf16", "fp16", "bfloat16", "float16"}
    fits = np.isin(rows.dtype, [*(sixteen if dtype in sixteen else {dtype}), ""])
    return np.asarray(fits & (rows.seconds >= max(FLOOR_S, FLOOR_STEPS * rows.resolution_s)))


def anchors(device: Device, rows: Measurements, *, dtype: str, count: int, seed: int) -> Mask:
    """Up to `count` warm rows so small that it does not matter: reading them takes a tenth of their
    time at most.

    They tell a fit what a launch costs, which large cold rows cannot; they are never scored.

    Args:
        device: profile.
        rows: measured, of one operation.
        dtype: format of operands.
        count: most of them.
        seed: of the choice.
    """
    chosen = np.zeros(len(rows), dtype=bool)
    if rows.operation in COLD_OPERATIONS:
        touched = timed(
            device, rows, dtype=dtype, matrices=expert_matrices(device, rows, dtype=dtype)
        )[1]
        small = touched / device.bandwidth_bytes_per_s <= ANCHOR_RATIO * rows.seconds
        warm = touched < COLD_RATIO * device.cache_bytes
        mine = np.flatnonzero(_legible(rows, dtype) & small & warm)
        chosen[np.random.default_rng(seed).permutation(mine)[:count]] = True
    return chosen


def expert_matrices(device: Device, rows: Measurements, *, dtype: str = "bf16") -> Array | None:
    """Weight matrices of an expert by row: 3 gated, 2 plain. None for other operations.

    Tables do not say which. A shape whose balanced rows would have to read three matrices faster
    than the memory can deliver them (the ninetieth percentile of bytes/bandwidth/time above
    `IMPOSSIBLE_RATIO`) has two.

    Args:
        device: profile.
        rows: measured, of one operation.
        dtype: format of operands.
    """
    if rows.operation != "moe":
        return None
    c = rows.columns
    work = expert_work(c, dtype, 3.0)
    pace = work.bytes / device.bandwidth_bytes_per_s / rows.seconds
    cold_rows = (rows.part == "balanced") & (work.bytes >= COLD_RATIO * device.cache_bytes)
    cold_rows &= np.isin(rows.dtype, [dtype, ""])
    matrices = np.full(len(rows), 3.0)
    shapes = np.stack([c["hidden"], c["experts"], c["experts_per_token"]], axis=1)
    for shape in np.unique(shapes, axis=0):
        mine = (shapes == shape).all(axis=1)
        if (mine & cold_rows).any() and np.quantile(pace[mine & cold_rows], 0.9) > IMPOSSIBLE_RATIO:
            matrices[mine] = 2.0
    return matrices


def set_aside(rows: Measurements, seed: int, share: float = FITTED_SHARE) -> Mask:
    """A share of the rows, drawn within every part; none where a part has fewer than `LEAST_SPLIT`
    rows.

    Args:
        rows: measured.
        seed: of the draw.
        share: in (0, 1).

    Returns:
        bool[rows].
    """
    generator = np.random.default_rng(seed)
    chosen = np.zeros(len(rows), dtype=bool)
    labels = part_labels(rows)
    for part in np.unique(labels):
        mine = np.flatnonzero(labels == part)
        if len(mine) >= LEAST_SPLIT:
            chosen[generator.permutation(mine)[: round(share * len(mine))]] = True
    return chosen


def _operation(
    device: Device, rows: Measurements, *, fit: bool, dtype: str, seed: int, share: float
) -> tuple[Device, CalibrationScore]:
    matrices = expert_matrices(device, rows, dtype=dtype)
    kept = usable(device, rows, dtype=dtype)
    used, layers = rows.select(kept), None if matrices is None else matrices[kept]
    aside = set_aside(used, seed, share)
    form = _verify_form(device, used.select(aside if aside.any() else ~aside), dtype, fit)
    near = anchors(device, rows, dtype=dtype, count=round(ANCHOR_SHARE * aside.sum()), seed=seed)
    plain = _uncorrected(device, rows.operation)

    def constants(which: Mask) -> dict[str, float]:
        joined = near.copy()
        joined[np.flatnonzero(kept)[which]] = True
        mine = None if matrices is None else matrices[joined]
        return fitted(plain, rows.select(joined), dtype=dtype, form=form, matrices=mine)

    def predicted(at: Device, which: Mask) -> Timing:
        mine = None if layers is None else layers[which]
        return timings(at, used.select(which), dtype=dtype, verify=form, matrices=mine)[0]

    fresh, values = device, constants(aside) if fit else {}
    if values:
        behind = used.select(aside)
        fresh = with_constants(plain, values)
        fresh = _corrected(fresh, behind, predicted(fresh, aside))
        crossed = aside.sum() <= FEW_ROWS
        timing_aside = (
            _crossed(plain, aside, constants, predicted) if crossed else predicted(fresh, aside)
        )
        fresh = _with_residuals(fresh, behind, timing_aside, form, values, crossed=crossed)
    timing = predicted(fresh, np.ones(len(used), dtype=bool))
    bounds = bounds_by_row(fresh.constants, used, timing, form)

    def score_of(which: Mask, rows_of: int, used_rows: int, fitted_rows: int) -> CalibrationScore:
        return _score(
            used,
            timing,
            bounds,
            which,
            rows=rows_of,
            used_rows=used_rows,
            fitted_rows=fitted_rows if values else 0,
        )

    all_labels, labels = part_labels(rows), part_labels(used)
    parts = {
        part: score_of(
            ~aside & (labels == part),
            int((all_labels == part).sum()),
            int((labels == part).sum()),
            int((aside & (labels == part)).sum()),
        )
        for part in np.unique(all_labels).tolist()
        if part
    }
    scored = score_of(~aside, len(rows), len(used), int(aside.sum()))
    shown = form if rows.operation == "attention_verify" else ""
    score = replace(scored, form=shown, parts=parts)
    return (_with_sources(fresh, device, rows, score, values) if values else device), score


def _uncorrected(device: Device, operation: str) -> Device:
    """The device without the correction of an operation, which is named as its group of
    constants.
    """
    kept = {
        name: table for name, table in device.constants.corrections.items() if name != operation
    }
    return replace(device, constants=replace(device.constants, corrections=kept))


def _corrected(fresh: Device, behind: Measurements, timing: Timing) -> Device:
    group_correction = correction(behind.operation, behind, timing)
    if group_correction is None:
        return fresh
    table = dict(fresh.constants.corrections) | {behind.operation: group_correction}
    return replace(fresh, constants=replace(fresh.constants, corrections=table))


def _crossed(
    plain: Device,
    aside: Mask,
    constants: Callable[[Mask], dict[str, float]],
    predicted: Callable[[Device, Mask], Timing],
) -> Timing:
    """What constants fitted to the other rows set aside predict for each: a few rows fit themselves
    too well.
    """
    mine = np.flatnonzero(aside)
    parts = np.zeros((len(Timing._fields), len(mine)))
    for fold in range(FOLDS):
        left_out = np.arange(len(mine)) % FOLDS == fold
        in_fold, others = np.zeros((2, len(aside)), dtype=bool)
        in_fold[mine[left_out]], others[mine[~left_out]] = True, True
        timing = predicted(with_constants(plain, constants(others)), in_fold)
        parts[:, left_out] = np.stack(np.broadcast_arrays(*timing))
    return Timing(*parts)


def _with_residuals(
    fresh: Device,
    rows: Measurements,
    timing: Timing,
    form: VerifyForm,
    values: Mapping[str, float],
    *,
    crossed: bool,
) -> Device:
    table = fresh.constants.corrections.get(rows.operation)
    nodes = len(table.values) if table else 0
    residuals = fitted_residuals(
        fresh.constants.residuals, rows, timing, form, _groups(values), nodes=nodes, crossed=crossed
    )
    return replace(fresh, constants=replace(fresh.constants, residual_ratio=residuals))


def _groups(values: Mapping[str, float]) -> set[str]:
    return {name.partition(".")[0] for name in values}


def _verify_form(device: Device, rows: Measurements, dtype: str, fit: bool) -> VerifyForm:
    """Whether the kernel behind the rows splits the cache: what times the rows set aside for
    fitting better.
    """
    if rows.operation != "attention_verify" or not len(rows):
        return "split"
    if (rows.columns["beside_requests"] > 0).any():
        return (  # mixed batches are one call of a kernel that takes every request as it comes
            "unsplit"
        )
    forms: tuple[VerifyForm, ...] = ("split", "unsplit")
    costs = {}
    for form in forms:
        if fit and len(rows) >= LEAST_SPLIT:
            few = rows.select(np.arange(len(rows)) % max(1, len(rows) // 400) == 0)
            costs[form] = search(
                device,
                GROUPS[group_of("attention_verify", form)],
                few.seconds,
                lambda d, form=form, few=few: timed(d, few, dtype=dtype, verify=form)[0],  # type: ignore[misc]
            )[1]
        else:
            predicted = timed(device, rows, dtype=dtype, verify=form)[0]
            costs[form] = float(np.median(np.abs(np.log(predicted / rows.seconds))))
    return min(forms, key=lambda form: costs[form])


def _score(
    used: Measurements,
    timing: Timing,
    bounds: tuple[Array, Array],
    which: Mask,
    *,
    rows: int,
    used_rows: int,
    fitted_rows: int,
) -> CalibrationScore:
    measured, predicted = used.seconds[which], timing.seconds[which]
    nothing = not len(measured)
    error, residual = np.abs(predicted / measured - 1.0), np.abs(measured / predicted - 1.0)
    covered = interval(used.seconds, timing, bounds, which)
    middle = np.nan if nothing else float(np.median(residual))
    return CalibrationScore(
        rows=rows,
        rows_used=used_rows,
        rows_fitted=fitted_rows,
        rows_scored=int(which.sum()),
        median=np.nan if nothing else float(np.median(error)),
        p90=np.nan if nothing else float(np.quantile(error, 0.9)),
        p80_ratio=np.nan if nothing else float(np.quantile(residual, 0.8)),
        coverage=covered.coverage,
        width_ratio=covered.width / middle if middle else np.nan,
    )


def _with_sources(
    fresh: Device,
    before: Device,
    rows: Measurements,
    score: CalibrationScore,
    values: Mapping[str, float],
) -> Device:
    """The device with the provenance of what was fitted."""
    origins = dict(before.provenance)
    for group in _groups(values):
        part = score.parts.get({"allreduce": "vllm"}.get(group, group), score)
        origin = NumberProvenance(kind="measured", source=_source(rows, part))
        assert group in OPERATIONS
        for name in (
            *(name for name in values if name.startswith(f"{group}.")),
            f"residual_ratio.{group}",
        ):
            origins[f"constants.{name}"] = origin
    launches = [origins[f"constants.{name}.launch_s"].kind for name in ("gemm", "attention")]
    return replace(
        fresh, provenance=origins, calibrated=all(kind == "measured" for kind in launches)
    )


def _source(rows: Measurements, score: CalibrationScore) -> str:
    names = ", ".join(path.replace("\\", "/").rsplit("/", 1)[-1] for path in rows.file.split(", "))
    errors = f"median error {score.median:.1%}, ninetieth percentile {score.p90:.1%}"
    text = (
        f"fitted to {score.rows_fitted} of {score.rows_used} usable rows of {names}; on the other"
        f" rows {errors}"
    )
    return text if len(text) <= 900 else text[:900]
