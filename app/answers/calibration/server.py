"""`calibrate --server` and `calibrate --engine llama.cpp`: an engine's own constants from requests
to it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.answers.calibration.profile_file import check_profile_file, write_profile_file
from app.answers.progress import progress_lines
from app.questions.calibrate import CalibrateQuestion
from app.questions.field import inputs_of
from app.questions.places import require_folder
from costmodel.engine_library import load_engine
from hardware_profiles.errors import InputError
from hardware_profiles.units import GIGA, MILLI
from real_runs.calibration.server.calibrate import calibrate_server
from real_runs.calibration.server.fit import FitScore
from real_runs.calibration.server.law import StepLaw


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineCost(Row):
    """What a part of an engine's work costs."""

    what: Annotated[str, Column("The part.")]
    costs: Annotated[str, Column("Its cost.")]


@dataclass(frozen=True, kw_only=True)
class EngineCalibration(Answer):
    """The answer of `calibrate --server`.

    Attributes:
        device: name of the profile.
        profile: its file.
        engine_file: file of the engine.
        trace: kernel trace of steps and prompts.
        seconds: wall time.
        law: costs per step, request and token.
        prompt_s: what a prompt takes beyond its pass.
        accepted_s: what an accepted draft token takes beside its pass.
        weight_bytes: that a step of one token reads.
        score: errors on passes that were not fitted.
        title: of the profile.
    """

    name: ClassVar[str] = ""
    is_written: ClassVar[bool] = True
    unwritten: ClassVar[tuple[str, ...]] = ("title",)
    device: str
    profile: Path
    engine_file: Path
    trace: Path
    seconds: float
    law: StepLaw
    prompt_s: float
    accepted_s: float
    weight_bytes: float
    score: FitScore
    title: str

    @property
    def own_rows(self) -> Sequence[EngineCost]:
        """What the parts cost."""
        law = self.law
        times = {
            "a step, whatever it serves": law.step_s,
            "a request that decodes": law.request_s,
            "a query token": law.token_s,
            "1000 cached tokens of a request": 1000 * law.cached_s,
            "1000 cached tokens, per query token": 1000 * law.pair_s,
            "a prompt, beyond its pass": self.prompt_s,
            "an accepted draft token, beside its pass": self.accepted_s,
        }
        if law.prompt_token_s:
            times["a prompt's token"] = law.prompt_token_s
        rate = law.bytes_per_s(self.weight_bytes)
        return [
            *(
                EngineCost(what=part, costs=f"{time_s / MILLI:.3g} ms")
                for part, time_s in times.items()
            ),
            EngineCost(what="weights read by one token's step", costs=f"{rate / GIGA:.3g} GB/s"),
        ]

    def shown(self) -> Iterator[Table | str]:
        """What the parts cost, how far off that is, and how the files are used."""
        score, law = self.score, self.law
        yield Table(
            title=self.title,
            rows=self.own_rows,
            columns=["what", "costs"],
            caption=(
                f"this sum is off by {law.error_ratio:.1%} in the median of {law.steps} shapes; the"
                f" profile by {score.median:.1%} (90 %: {score.p90:.1%}) where it was not fitted;"
                f" between measured passes 80 % lie within {score.interpolated:.1%}; measured in"
                f" {self.seconds:.0f} s"
            ),
        )
        files = f"--device {self.profile} --engine {self.engine_file}"
        yield f"predict and optimize take it with {files} --fidelity measured,"
        yield "simulate with --set deployment.fidelity=measured in its place"


def calibrate_engine(question: CalibrateQuestion) -> EngineCalibration:
    """Measure a server that runs, or llama.cpp started in its place, and fit.

    Raises:
        InputError: options that make no sense, no server, or too little was measured.
    """
    engine = question.engine
    if question.server is not None and engine is not None:
        raise InputError(
            "starts a server: leave out --server, or leave it to say which engine it is",
            key="--engine",
        )
    if engine is not None and load_engine(engine).name != "llama.cpp":
        rule = "only llama.cpp is started here; give the address of others with --server"
        raise InputError(rule, key="--engine", value=engine)
    require_folder(question.results, "--results")
    check_profile_file(question.out)
    calibration = calibrate_server(
        out=question.results,
        server=question.server,
        model=question.model,
        threads=question.threads,
        budget_s=question.budget_s,
        base=question.base,
        resume=question.resume,
        progress=progress_lines(question.quiet),
    )
    write_profile_file(calibration.device, question.out)
    return EngineCalibration(
        inputs=inputs_of(question, budget_s=question.budget_s),
        device=calibration.device.name,
        profile=question.out or calibration.profile,
        engine_file=calibration.engine_file,
        trace=calibration.trace,
        seconds=calibration.seconds,
        law=calibration.law,
        prompt_s=calibration.prompt_s,
        accepted_s=calibration.accepted_s,
        weight_bytes=calibration.weight_bytes,
        score=calibration.score,
        title=calibration.device.title,
    )
