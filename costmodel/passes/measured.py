"""How long does a pass take on a device whose whole passes were measured?

The fidelity `measured`: the calibrated form times the ratio that measured passes stand in to it,
interpolator over query tokens, requests, cached tokens and layers; outside the grid the nearest
edge. The ratio is to the profile as it is shipped, so that what-if overrides keep their effect.
Prompts have a grid of their own, or stay calibrated without. Leaves out how passes are timed
(`real_runs.kernels.step`, `real_runs.calibration.server`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from costmodel.architectures.architecture import Architecture
from costmodel.architectures.library import load_model, named_model
from costmodel.passes.calibrated import Logits, calibrated_pass
from costmodel.passes.deployment import Deployment
from costmodel.passes.ops import Array, Number
from costmodel.passes.precision import Precision, main_format
from costmodel.passes.totals import PassCost
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.loader import device_names, load_device
from hardware_profiles.profile import Device
from traces.storage.header import METADATA_KEY, decode_header
from traces.storage.kernels import KernelRow, read_kernels

COVERAGE = 0.8
# mask of rows that are passes over a prompt, of which the last token alone reaches the output head
PROMPT = "prompt"
_ROOTS: list[Path] = []
_ADDED: list[Path] = []
_Axes = tuple[Array, Array, Array]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PassGrid:
    """Log ratios of measured to calibrated passes on a full grid.

    Attributes:
        layers: layers that the passes ran.
        axes: log2 of query tokens, of requests and of cached tokens + 1, each ascending.
        log_ratio: by those axes; holes are filled with their nearest neighbour.
        left_out: errors of log ratios when a point is interpolator from its neighbours in query
            tokens.
    """

    layers: int
    axes: _Axes
    log_ratio: Array
    left_out: Array

    def at(self, query_tokens: Array, requests: Array, context: Array) -> Array:
        """Log ratio at points, which broadcast; outside the grid that of its edge.

        Args:
            query_tokens: n, >= 1.
            requests: b, >= 1.
            context: cached tokens, >= 0.
        """
        # scipy is slow to load: only where grids are interpolated
        from scipy.interpolate import RegularGridInterpolator  # type: ignore[import-untyped]

        points = np.broadcast_arrays(
            np.log2(query_tokens), np.log2(requests), np.log2(context + 1.0)
        )
        inside = [
            np.clip(coordinate, axis[0], axis[-1])
            for coordinate, axis in zip(points, self.axes, strict=True)
        ]
        axes = [place for place, axis in enumerate(self.axes) if len(axis) > 1]
        if not axes:
            return np.full(np.shape(points[0]), float(self.log_ratio.reshape(-1)[0]))
        values = self.log_ratio.reshape([len(self.axes[place]) for place in axes])
        interpolator = RegularGridInterpolator([self.axes[place] for place in axes], values)
        flat = np.stack([inside[place].reshape(-1) for place in axes], axis=-1)
        return np.asarray(interpolator(flat)).reshape(np.shape(points[0]))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MeasuredPasses:
    """All grids of one model on one device.

    Attributes:
        grids: by mask ("causal", "tree", "prompt"), one per number of layers, ascending.
        spread_ratio: half width of the 80 % interval of a pass at a point that was not measured.
        points: requests and cached tokens of the measured passes.
    """

    grids: Mapping[str, Sequence[PassGrid]]
    spread_ratio: float
    points: frozenset[tuple[int, int]]

    def ratio(
        self,
        *,
        batch: Number,
        query_tokens: Number,
        context: Number,
        layers: int,
        mask: str = "causal",
    ) -> Array:
        """Measured over calibrated time of a pass; arguments broadcast.

        Args:
            batch: requests.
            query_tokens: new tokens per request.
            context: cached tokens per request.
            layers: that run; between two measured numbers the ratio is interpolator.
            mask: of the new tokens; a chain's where trees were not measured.
        """
        n, b, c = (
            np.asarray(values, dtype=np.float64) for values in (query_tokens, batch, context)
        )
        grids = self.grids.get(mask) or self.grids["causal"]
        if mask == PROMPT:
            return self._between(grids, n, b, c, layers)
        if mask != "causal":
            # a tree of one token is a chain, and trees are measured from two tokens on
            causal = self.ratio(batch=b, query_tokens=n, context=c, layers=layers)
            return np.asarray(np.where(n > 1.0, self._between(grids, n, b, c, layers), causal))
        return self._between(grids, n, b, c, layers)

    @staticmethod
    def _between(grids: Sequence[PassGrid], n: Array, b: Array, c: Array, layers: int) -> Array:
        grid_layers = np.array([grid.layers for grid in grids], dtype=np.float64)
        log_ratios = np.stack([grid.at(n, b, c) for grid in grids])
        place = float(np.interp(layers, grid_layers, np.arange(len(grid_layers))))
        low, share = int(place), place - int(place)
        high = min(low + 1, len(grids) - 1)
        return np.asarray(np.exp((1.0 - share) * log_ratios[low] + share * log_ratios[high]))


def measured_pass(
    deployment: Deployment,
    *,
    batch: Number,
    query_tokens: Number,
    context: Number,
    logits: Logits = "all",
    prefill: bool = False,
    mask: str = "causal",
) -> PassCost:
    """A pass at fidelity `measured`; passes without logits stay calibrated, and prompts where none
    were measured.

    Args:
        deployment: model, device and precision; of the same model, device and format passes must be
            there.
        batch: requests.
        query_tokens: new tokens per request.
        context: cached tokens per request.
        logits: as in `pass_cost`.
        prefill: as in `pass_cost`.
        mask: of the new tokens.

    Raises:
        InputError: no passes of this model were measured on this device.
    """
    plain = replace(deployment, fidelity="calibrated")
    cost = calibrated_pass(
        plain,
        batch=batch,
        query_tokens=query_tokens,
        context=context,
        logits=logits,
        prefill=prefill,
    )
    headless = isinstance(logits, str) and logits == "none"
    if (headless and not prefill) or deployment.tensor_parallel > 1:
        return cost
    if prefill:
        measured = _passes_or_none(deployment)
        if measured is None or PROMPT not in measured.grids:
            return cost
        passes, mask = measured, PROMPT
    else:
        passes = passes_of(deployment)
    ratio = passes.ratio(
        batch=batch,
        query_tokens=query_tokens,
        context=context,
        layers=deployment.architecture.layers,
        mask=mask,
    )
    operations = tuple(
        operation._replace(
            timing=operation.timing._replace(seconds=operation.timing.seconds * ratio)
        )
        for operation in cost.operations
    )
    return replace(
        cost,
        seconds={name: value * ratio for name, value in cost.seconds.items()},
        operations=operations,
    )


def passes_of(deployment: Deployment) -> MeasuredPasses:
    """The measured passes behind a deployment.

    Raises:
        InputError: there are none.
    """
    passes = _passes_or_none(deployment)
    if passes is not None:
        return passes
    p, name, model = deployment.precision, deployment.device.name, deployment.architecture.name
    rule = f"no passes of {model} in {p.label} were measured on {name}; use calibrated"
    raise InputError(rule, key="fidelity", value="measured")


def _passes_or_none(deployment: Deployment) -> MeasuredPasses | None:
    p, model = deployment.precision, deployment.architecture
    for path in measured_files(deployment.device.name):
        passes = _loaded(
            path, path.stat().st_mtime_ns, _unchanged(deployment.device), model, p.untransformed
        )
        if passes is not None:
            return passes
    return None


def measured_files(device: str) -> list[Path]:
    """Kernel traces that were measured on a device, in the order in which they are tried.

    The folder added last comes first; then the newest traces below the roots.

    Args:
        device: name of its profile.
    """
    added = [
        path for folder in reversed(_ADDED) for path in sorted(folder.glob("kernels*.parquet"))
    ]
    # of a machine, and of an engine on it
    patterns = ("*/*/kernels*.parquet", "*/*/*/kernels*.parquet")
    below = [
        (path.relative_to(root).parts[1], path)
        for root in _ROOTS
        for pattern in patterns
        for path in root.glob(pattern)
    ]
    dated = [path for _, path in sorted(below, key=lambda pair: pair[0], reverse=True)]
    return [path for path in (*added, *dated) if _profile(path, path.stat().st_mtime_ns) == device]


def add_results(folder: Path) -> None:
    """Add the kernel traces of a folder for this process, tried before those added earlier.

    Raises:
        InputError: no such folder.
    """
    if not folder.is_dir():
        raise InputError("must be a folder with measured passes", key="results", value=str(folder))
    if folder not in _ADDED:
        _ADDED.append(folder)


def add_results_root(root: Path) -> None:
    """Let this process find the kernel traces below `root`, in folders `<device>/<date>`, after all
    added folders.
    """
    if root not in _ROOTS:
        _ROOTS.append(root)


def fit_grids(
    rows: Sequence[KernelRow], device: Device, model: str | Architecture, precision: Precision
) -> MeasuredPasses | None:
    """Grids from measured passes of a model; None where there are none.

    Args:
        rows: of a kernel trace; a captured graph stands before plain launches.
        device: profile that the ratios are to.
        model: shipped name, or the model itself.
        precision: formats of the passes; rows are those in its main weight format, whatever else a
            file mixes in.
    """
    whole = load_model(model) if isinstance(model, str) else _whole(model)
    form = main_format(precision.weights)
    seconds: dict[tuple[str, int], dict[tuple[int, int, int], KernelRow]] = defaultdict(dict)
    for row in rows:
        if row.operation != "step" or row.model != whole.name or row.dtype != form:
            continue
        place = (row.query_tokens, row.requests, row.context)
        before = seconds[row.mask, row.layers].get(place)
        if before is None or (row.graph, -row.median_s) > (before.graph, -before.median_s):
            seconds[row.mask, row.layers][place] = row
    grids: dict[str, list[PassGrid]] = defaultdict(list)
    for (mask, layers), points in sorted(seconds.items()):
        grids[mask].append(_grid(points, device, _of_layers(whole, layers), precision, mask))
    if "causal" not in grids:
        return None
    errors = np.concatenate(
        [grid.left_out for model_grids in grids.values() for grid in model_grids]
    )
    spread = float(np.expm1(np.quantile(errors, COVERAGE))) if errors.size else 0.2
    grid_points = frozenset((b, c) for points in seconds.values() for _, b, c in points)
    return MeasuredPasses(grids=grids, spread_ratio=spread, points=grid_points)


def _whole(model: Architecture) -> Architecture:
    """The shipped model of that name, of which the given one may have fewer layers; the given one
    where none is.
    """
    try:
        return named_model(model.name)
    except UnknownNameError:
        return model


def _of_layers(whole: Architecture, layers: int) -> Architecture:
    return whole if layers == whole.layers else whole.with_layers(layers)


def _grid(
    points: Mapping[tuple[int, int, int], KernelRow],
    device: Device,
    architecture: Architecture,
    precision: Precision,
    mask: str,
) -> PassGrid:
    deployment = Deployment(architecture=architecture, device=device, precision=precision)
    sizes = np.array(list(points), dtype=np.float64)
    calibrated = calibrated_pass(
        deployment,
        batch=sizes[:, 1],
        query_tokens=sizes[:, 0],
        context=sizes[:, 2],
        prefill=mask == PROMPT,
        logits="last" if mask == PROMPT else "all",
    ).total_s
    ratios = np.log(np.array([row.median_s for row in points.values()]) / calibrated)
    places = np.stack(
        [np.log2(sizes[:, 0]), np.log2(sizes[:, 1]), np.log2(sizes[:, 2] + 1.0)], axis=1
    )
    axes: _Axes = (np.unique(places[:, 0]), np.unique(places[:, 1]), np.unique(places[:, 2]))
    mesh = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    nearest = np.square(mesh[..., None, :] - places).sum(axis=-1).argmin(axis=-1)
    log_ratio = ratios[nearest]
    return PassGrid(
        layers=architecture.layers,
        axes=axes,
        log_ratio=log_ratio,
        left_out=_left_out(axes[0], log_ratio),
    )


def _left_out(sizes: Array, log_ratio: Array) -> Array:
    """|error| of every inner point if it followed from its neighbours along the first axis."""
    if len(sizes) < 3:
        return np.zeros(0)
    share = ((sizes[1:-1] - sizes[:-2]) / (sizes[2:] - sizes[:-2]))[:, None, None]
    between = (1.0 - share) * log_ratio[:-2] + share * log_ratio[2:]
    return np.asarray(np.abs(between - log_ratio[1:-1]).reshape(-1))


@lru_cache(maxsize=32)
def _loaded(
    path: Path, changed_ns: int, device: Device, model: Architecture, formats: Precision
) -> MeasuredPasses | None:
    """Grids of one file; read again once the file has changed."""
    del changed_ns
    return fit_grids(read_kernels(path).rows, device, model, formats)


def _unchanged(device: Device) -> Device:
    """The profile of that name as it is shipped; the given one where it is not."""
    return load_device(device.name) if device.name in device_names() else device


@lru_cache(maxsize=256)
def _profile(path: Path, changed_ns: int) -> str:
    """Device profile that a kernel trace names, from its header alone; "" where it cannot be
    read.
    """
    del changed_ns
    try:
        metadata = pq.read_metadata(path).metadata or {}
        about = decode_header(metadata.get(METADATA_KEY), str(path)).get("provenance")
    except (OSError, ValueError, InputError):
        return ""
    return str(about.get("profile", "")) if isinstance(about, dict) else ""
