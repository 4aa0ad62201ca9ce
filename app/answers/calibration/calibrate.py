"""`calibrate`: score a device profile on measured kernels, and fit its constants to them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.answers.calibration.lines import ErrorLine, error_table, percent
from app.answers.calibration.profile_file import check_profile_file, write_profile_file
from app.answers.calibration.server import calibrate_engine
from app.answers.progress import progress_line
from app.questions.calibrate import CalibrateQuestion
from app.questions.field import inputs_of
from costmodel.calibration.calibrate import CalibrationScore, calibrate
from costmodel.calibration.tables import read_all, shipped_model
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationErrors(Row):
    """How far the predictions of an operation stand from measurements."""

    rows: Annotated[int, Column("Rows of it in the tables.")]
    rows_used: Annotated[int, Column("Rows that pass the filters.")]
    rows_fitted: Annotated[int, Column("Rows that constants were fitted to.")]
    rows_scored: Annotated[int, Column("Rows that the errors are of.")]
    median: Annotated[float, Column("Median of |predicted / measured - 1|.", unit="ratio")]
    p90: Annotated[float, Column("Its ninetieth percentile.", unit="ratio")]
    coverage: Annotated[float, Column("Rows within the 80 % interval.", unit="ratio")]
    width_ratio: Annotated[float, Column("Width of that interval over the median error.")]
    form: Annotated[str | None, Column("How verify attention reads the cache.")] = None
    parts: Annotated[
        "Mapping[str, OperationErrors] | None", Column("The same by library or by routing.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class TableCalibration(Answer):
    """The answer of `calibrate` with tables.

    Attributes:
        operations: errors by operation.
        out: the profile that was written; None: none was.
        title: of the profile.
    """

    name: ClassVar[str] = ""
    is_written: ClassVar[bool] = True
    unwritten: ClassVar[tuple[str, ...]] = ("title",)
    operations: Mapping[str, OperationErrors]
    out: Path | None
    title: str

    @property
    def own_rows(self) -> Sequence[OperationErrors]:
        """The errors of the operations."""
        return list(self.operations.values())

    def shown(self) -> Iterator[Table | str]:
        """The errors, a line for every operation and part."""
        lines = []
        for name, errors in self.operations.items():
            lines.append(_line(f"{name} ({errors.form})" if errors.form else name, errors))
            lines += [_line(f"  {part}", own) for part, own in (errors.parts or {}).items()]
        how = "as it is" if self.inputs["score_only"] else "after a fit to the rows set aside"
        yield error_table(
            f"{self.title}, {how}",
            lines,
            "errors are |predicted / measured - 1|; the interval is to hold 80 % of the scored"
            " rows",
        )


def answer(question: CalibrateQuestion) -> Answer:
    """Fit and score tables, this machine, or an engine.

    Raises:
        InputError: options that do not go together, tables that cannot be read, or too little was
            measured.
    """
    tables = [*(question.kernels or []), *(question.more or [])]
    if question.server is not None or question.engine is not None:
        if tables or question.score_only or question.here is not None:
            key = "--server" if question.server is not None else "--engine"
            raise InputError(
                "measures an engine: leave out tables, --score-only and --here", key=key
            )
        return calibrate_engine(question)
    if not tables and not question.score_only:
        # needs torch, which tables do not
        from app.answers.calibration.here import calibrate_here

        return calibrate_here(question)
    if question.here is not None:
        raise InputError(
            "measures this machine: leave out tables and --score-only",
            key="--here",
            value=question.here,
        )
    if not tables:
        raise InputError("at least one table of kernel timings is needed", key="--kernels")
    if question.out is not None and question.score_only:
        raise InputError(
            "writes fitted constants, and --score-only fits none",
            key="--out",
            value=str(question.out),
        )
    return _calibrate_tables(question, tables)


def _calibrate_tables(question: CalibrateQuestion, tables: Sequence[Path]) -> TableCalibration:
    check_profile_file(question.out)
    if question.model is not None:
        shipped_model(question.model)
    profile = load_device(question.device, question.overrides or [])
    with progress_line(question.quiet) as tell:
        tell("reading tables")
        calibration = calibrate(
            read_all(tables, model=question.model),
            profile,
            fit=not question.score_only,
            dtype=question.dtype,
            seed=question.seed,
            share=question.share,
            progress=tell,
        )
    write_profile_file(calibration.device, question.out)
    return TableCalibration(
        inputs=inputs_of(
            question,
            kernels=tables,
            device=profile.name,
            set=question.overrides or [],
        ),
        operations={name: _errors(score) for name, score in calibration.scores.items()},
        out=question.out,
        title=profile.title,
    )


def _errors(score: CalibrationScore) -> OperationErrors:
    return OperationErrors(
        rows=score.rows,
        rows_used=score.rows_used,
        rows_fitted=score.rows_fitted,
        rows_scored=score.rows_scored,
        median=score.median,
        p90=score.p90,
        coverage=score.coverage,
        width_ratio=score.width_ratio,
        form=score.form or None,
        parts={name: _errors(part) for name, part in score.parts.items()} or None,
    )


def _line(name: str, errors: OperationErrors) -> ErrorLine:
    return ErrorLine(
        operation=name,
        rows=errors.rows,
        used=errors.rows_used,
        fitted=errors.rows_fitted,
        scored=errors.rows_scored,
        median=percent(errors.median),
        p90=percent(errors.p90),
        covered=percent(errors.coverage, 0),
    )
