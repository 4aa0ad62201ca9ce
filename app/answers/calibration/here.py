"""`calibrate` without tables: measure this machine and fit its profile."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from app.answers.answer import Answer, Table
from app.answers.calibration.lines import ErrorLine, error_table, percent
from app.answers.calibration.profile_file import check_profile_file, write_profile_file
from app.answers.progress import progress_lines
from app.questions.calibrate import CalibrateQuestion
from app.questions.field import inputs_of
from app.questions.places import require_folder
from real_runs.calibration.device import calibrate_device
from real_runs.calibration.operations import OperationScore
from real_runs.calibration.passes import PassScore
from real_runs.doctor import sees_gpu


@dataclass(frozen=True, kw_only=True)
class MachineCalibration(Answer):
    """The answer of `calibrate --here`.

    Attributes:
        device: name of the profile.
        profile: its file.
        trace: kernel trace with the rows of all jobs.
        seconds: wall time.
        operations: errors by operation on rows that were not fitted.
        passes: the same of whole passes.
        title: of the profile.
    """

    name: ClassVar[str] = ""
    is_written: ClassVar[bool] = True
    unwritten: ClassVar[tuple[str, ...]] = ("title",)
    device: str
    profile: Path
    trace: Path
    seconds: float
    operations: Mapping[str, OperationScore]
    passes: PassScore
    title: str

    @property
    def own_rows(self) -> Sequence[OperationScore]:
        """The errors of the operations."""
        return list(self.operations.values())

    def shown(self) -> Iterator[Table | str]:
        """The errors of operations and passes, and where the files lie."""
        scores: dict[str, OperationScore | PassScore] = {
            **self.operations,
            "whole passes": self.passes,
        }
        yield error_table(
            f"{self.title}, fitted in {self.seconds:.0f} s",
            [_line(name, score) for name, score in scores.items()],
            "errors are |predicted / measured - 1|; 0 fitted: constants kept",
        )
        yield f"profile in {self.profile}, rows in {self.trace}"


def calibrate_here(question: CalibrateQuestion) -> MachineCalibration:
    """Measure the device that is named, else the GPU where there is one, else the CPU, and fit.

    Raises:
        InputError: options that make no sense, or too little was measured.
    """
    require_folder(question.results, "--results")
    check_profile_file(question.out)
    calibration = calibrate_device(
        out=question.results,
        device=question.here or ("cuda" if sees_gpu() else "cpu"),
        model=question.model,
        threads=question.threads,
        budget_s=question.budget_s,
        base=question.base,
        resume=question.resume,
        progress=progress_lines(question.quiet),
    )
    write_profile_file(calibration.device, question.out)
    return MachineCalibration(
        inputs=inputs_of(question, budget_s=question.budget_s),
        device=calibration.device.name,
        profile=question.out or calibration.profile,
        trace=calibration.trace,
        seconds=calibration.seconds,
        operations=calibration.scores,
        passes=calibration.passes,
        title=calibration.device.title,
    )


def _line(name: str, score: OperationScore | PassScore) -> ErrorLine:
    return ErrorLine(
        operation=name,
        rows=score.rows,
        fitted=score.rows_fitted,
        scored=score.rows_scored,
        median=percent(score.median),
        p90=percent(score.p90),
    )
