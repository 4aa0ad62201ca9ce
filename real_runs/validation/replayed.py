"""How far off are predictions at real model shapes, with random weights and recorded acceptance?

Verify passes that a campaign timed at the shapes of chains and trees, beside what the cost model
says of them; what a step emits is replayed from a trace, so that tokens per second and regret
follow. Passes of jobs named `score...` are scored; all others calibrate, and no batch and context
among them is scored. Drafting counts as free, as that of lookups on the host nearly is. Leaves out
running (`real_runs.campaigns.campaign`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costmodel.architectures.library import load_model
from costmodel.passes.deployment import Deployment
from costmodel.passes.forward import pass_cost
from costmodel.passes.measured import MeasuredPasses, fit_grids
from costmodel.passes.precision import precision
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from hardware_profiles.profile import Device
from real_runs.campaigns.results import read_results
from real_runs.validation.score import Point, Validation, compared, fastest_chosen, regrets, summary
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree
from traces.library import default_traces, read_trace
from traces.replay.walk import replay_chain, replay_tree
from traces.storage.kernels import KernelRow

SCORED = "score"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Shape:
    """A verify pass as a configuration: chain or tree of so many draft tokens."""

    mask: str
    draft_tokens: int

    @property
    def name(self) -> str:
        if not self.draft_tokens:
            return "plain"
        return f"{'tree' if self.mask == 'tree' else 'chain'}-{self.draft_tokens}"


def validate_replayed(
    folder: Path,
    *,
    profile: str | None = None,
    trace: Path | None = None,
    rows: Sequence[KernelRow] | None = None,
) -> Validation:
    """Score the timed passes of a results folder.

    Args:
        folder: results of a campaign.
        profile: device by name or file; None: the one that the rows name.
        trace: acceptance of level 1 or more (trees need ranks); None: the first shipped one with
            ranks.
        rows: to score instead of the folder's.

    Raises:
        InputError: no passes to score, an unknown profile, or a trace of too low a level.
    """
    results = read_results(folder) if rows is None else None
    if rows is None and results is None:
        raise InputError("holds no measured rows", file=folder)
    passes = [
        row
        for row in (rows if rows is not None else results.rows if results else ())
        if row.operation == "step"
    ]
    named = profile or (results.provenance.profile if results else "")
    if not named:
        raise InputError("the rows name no profile; pass one", key="profile")
    device = load_device(named)
    scored = [row for row in passes if row.job.startswith(SCORED)]
    fitted = [row for row in passes if not row.job.startswith(SCORED)]
    fitted_places = {(row.requests, row.context) for row in fitted}
    fresh = [row for row in _best(scored) if (row.requests, row.context) not in fitted_places]
    if not fresh:
        raise InputError(
            "holds no passes of jobs named score... at a batch and context of their own",
            file=folder,
        )
    met = sum((row.requests, row.context) in fitted_places for row in scored)
    acceptance = read_trace(trace) if trace else _with_ranks()
    points = [
        point
        for (model, dtype) in sorted({(r.model, r.dtype) for r in fresh})
        for point in _points(
            [r for r in fresh if (r.model, r.dtype) == (model, dtype)],
            [r for r in fitted if (r.model, r.dtype) == (model, dtype)],
            device,
            acceptance,
        )
    ]
    points = fastest_chosen(points)
    about: dict[str, Any] = {
        "device": results.provenance.device if results else "",
        "profile": device.name,
        "fidelity": "measured" if fitted else "calibrated",
        "trace": acceptance.provenance.drafter,
        "acceptance": "replayed; random weights at real shapes, drafting free",
    }
    return Validation(
        points=tuple(points),
        regrets=tuple(regrets(points)),
        summary=summary(points),
        left_out=(f"{met} passes at calibrated points",) if met else (),
        about=about,
    )


def heap_tree(nodes: int) -> Tree:
    """The binary tree in breadth-first order that timed tree passes run, root included."""
    parents = (-1, *((node - 1) // 2 for node in range(1, nodes)))
    return Tree(parents=parents, ranks=(0, *((node - 1) % 2 for node in range(1, nodes))))


def _best(rows: Sequence[KernelRow]) -> list[KernelRow]:
    """One row per shape: the captured graph's where there is one."""
    best: dict[tuple[Any, ...], KernelRow] = {}
    for row in rows:
        shape = (
            row.model,
            row.layers,
            row.dtype,
            row.mask,
            row.requests,
            row.query_tokens,
            row.context,
        )
        if shape not in best or (row.graph, -row.median_s) > (
            best[shape].graph,
            -best[shape].median_s,
        ):
            best[shape] = row
    return list(best.values())


def _points(
    rows: Sequence[KernelRow],
    fitted: Sequence[KernelRow],
    device: Device,
    acceptance: AcceptanceTrace,
) -> list[Point]:
    first = rows[0]
    formats = precision(first.dtype, first.dtype)
    grids = fit_grids(fitted, device, first.model, formats) if fitted else None
    spread = grids.spread_ratio if grids else device.constants.residual_ratio["gemm"]
    emitted: dict[_Shape, float | None] = {}
    points = []
    for row in rows:
        shape = _Shape(mask=row.mask, draft_tokens=row.query_tokens - 1)
        if shape not in emitted:
            emitted[shape] = _tokens_per_step(acceptance, shape)
        tokens = emitted[shape]
        if tokens is None:
            continue
        predicted_s = _predicted(row, device, grids)
        points.append(_point(row, shape, tokens, predicted_s, spread))
    return points


def _predicted(row: KernelRow, device: Device, grids: MeasuredPasses | None) -> float:
    whole = load_model(row.model)
    architecture = whole if row.layers in (0, whole.layers) else whole.with_layers(row.layers)
    deployment = Deployment(
        architecture=architecture, device=device, precision=precision(row.dtype, row.dtype)
    )
    b, n, c = row.requests, row.query_tokens, row.context
    seconds = float(pass_cost(deployment, batch=b, query_tokens=n, context=c).total_s)
    if grids is None:
        return seconds
    return seconds * float(
        grids.ratio(batch=b, query_tokens=n, context=c, layers=row.layers, mask=row.mask)
    )


def _point(
    row: KernelRow, shape: _Shape, tokens: float, predicted_s: float, spread: float
) -> Point:
    def rates(step_s: float) -> dict[str, float]:
        return {
            "tokens_per_s": row.requests * tokens / step_s,
            "tokens_per_step": tokens,
            "step_s": step_s,
            "draft_s": 0.0,
            "verify_s": step_s,
            "rest_s": 0.0,
        }

    return Point(
        kind=f"{row.model}, {row.dtype}",
        context=row.context,
        batch=row.requests,
        configuration=shape.name,
        drafter="recorded" if shape.draft_tokens else "",
        topology="off" if not shape.draft_tokens else "tree" if shape.mask == "tree" else "chain",
        draft_tokens=shape.draft_tokens,
        chosen=False,
        runs=row.repeats,
        disturbed=row.discarded,
        differing=0,
        **compared(rates(row.median_s), rates(predicted_s), spread_ratio=spread),
    )


def _tokens_per_step(trace: AcceptanceTrace, shape: _Shape) -> float | None:
    """What a step emits; None for trees where the trace holds no ranks or not so many."""
    if shape.mask != "tree" or not shape.draft_tokens:
        return float(replay_chain(trace, shape.draft_tokens).tokens_per_step)
    tree = heap_tree(shape.draft_tokens + 1)
    if trace.level < 2 or (trace.depth is not None and tree.depth - 1 > trace.depth):
        return None
    return float(replay_tree(trace, tree).tokens_per_step)


def _with_ranks() -> AcceptanceTrace:
    traces = [read_trace(path) for path in default_traces()]
    return next(
        (trace for trace in traces if trace.level >= 2 and trace.rank is not None), traces[0]
    )
