"""`sweep`: every cell of a product of models, devices, engines, drafters, batches and contexts, as
one Parquet file; or which cells moved between two such files.
"""

import math
from pathlib import Path

from app.answers.progress import counting
from app.answers.sweep.compare import compare
from app.answers.sweep.file import read_sweep
from app.answers.sweep.rows import SweepComparison, SweptCells
from app.answers.sweep.run import run_sweep
from app.questions.field import inputs_of
from app.questions.sweep import SweepQuestion
from hardware_profiles.errors import InputError


def answer(question: SweepQuestion) -> SweptCells | SweepComparison:
    """The cells of a sweep, which are written to a file, or what lies between two sweeps.

    Raises:
        InputError: options that do not go together, or files that are no sweeps.
    """
    if question.compare is not None:
        return _compared(question, *question.compare)
    if question.file is None or question.out is None:
        raise InputError(
            "Missing a FILE of lists and '--out', or '--compare OLD NEW'; see `rooftree sweep"
            " --help`"
        )
    sweep = read_sweep(question.file)
    with counting(question.quiet) as bar:
        summary = run_sweep(
            sweep,
            question.out,
            csv_file=question.csv,
            workers=question.workers,
            seed=question.seed,
            resume=question.resume,
            ray=question.ray,
            report=lambda done, total: bar(f"{total} cells", done, total),
        )
    return SweptCells(
        inputs=inputs_of(question, **sweep.lists.model_dump(mode="json")),
        out=question.out,
        csv=question.csv,
        cells=summary.cells,
        feasible=summary.feasible,
        topologies=summary.topologies,
        reasons=summary.reasons,
        computed=summary.computed,
        workers=summary.workers,
    )


def _compared(question: SweepQuestion, old: Path, new: Path) -> SweepComparison:
    """Which cells moved from one result to the other."""
    threshold = question.threshold
    alone = (question.file, question.out, question.ray)
    if question.resume or any(value is not None for value in alone):
        raise InputError("goes with --threshold, --csv and --json alone", key="--compare")
    if not (math.isfinite(threshold) and threshold >= 0.0):
        raise InputError("must be a share >= 0", key="--threshold", value=threshold)
    between = compare(old, new, threshold=threshold)
    return SweepComparison(
        inputs=inputs_of(question),
        same=between.same,
        moved=between.moved,
        appeared=between.appeared,
        disappeared=between.disappeared,
    )
