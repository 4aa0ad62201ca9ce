"""`campaign`: run a list of measurements within a time budget."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import real_runs
from app.answers.answer import Answer, Column, Row, Table
from app.answers.progress import progress_lines
from app.questions.campaign import CampaignQuestion
from app.questions.field import inputs_of
from app.questions.places import require_folder
from hardware_profiles.places import is_place
from hardware_profiles.units import GIGA, MILLI
from real_runs.campaigns.campaign import JobOutcome, run_campaign
from real_runs.campaigns.decode_summary import Speed
from real_runs.campaigns.measures import Measures, PassRate

_MOST_REASON = 80  # characters


@dataclass(frozen=True, kw_only=True, slots=True)
class JobLine(Row):
    """What became of a job, as its table shows it."""

    job: Annotated[str, Column("Its name.")]
    state: Annotated[str, Column("Finished, cut, failed, skipped or stopped.")]
    rows: Annotated[int, Column("Rows, runs or trace files of it.")]
    seconds: Annotated[float, Column("Wall time.", decimals=0)]
    reason: Annotated[str, Column("Why it is not finished.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class PassLine(Row):
    """A whole pass as a rate."""

    what: Annotated[str, Column("Model, layers, format, attention and mask.", "pass")]
    requests: Annotated[int, Column("That ran together.")]
    query_tokens: Annotated[int, Column("New tokens of each.", "tokens")]
    context: Annotated[int, Column("Cached tokens of each.")]
    median_ms: Annotated[float, Column("Time of the pass.", "ms", decimals=2)]
    gigabytes_per_s: Annotated[float, Column("What it read and wrote.", "GB/s", decimals=1)]
    copy_ratio: Annotated[float | None, Column("Over the rate of a copy.", "of a copy", decimals=2)]


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeedLine(Row):
    """How fast a configuration decodes prompts of a kind."""

    what: Annotated[
        str, Column("Configuration, kind of prompts.", "configuration, prompts of kind")
    ]
    prompts: Annotated[int, Column("Prompts with an undisturbed run of it and of plain decoding.")]
    runs: Annotated[int, Column("Undisturbed runs.")]
    disturbed: Annotated[int, Column("Runs that something else disturbed.")]
    differing: Annotated[int, Column("Runs whose output is not the plain one.")]
    tokens_per_step: Annotated[float | None, Column("Emitted per step.", "tokens/step", decimals=2)]
    tokens_per_s: Annotated[float | None, Column("After the first.", "tokens/s", decimals=1)]
    draft_ratio: Annotated[
        float | None, Column("Share of the time that drafting took.", "drafting", decimals=2)
    ]
    speedup: Annotated[float | None, Column("Over plain decoding.", decimals=2)]
    interval: Annotated[str, Column("Its 80 % interval.", "80 %")]
    request_speedup: Annotated[
        float | None, Column("With the prefill counted in.", "with prefill", decimals=2)
    ]


@dataclass(frozen=True, kw_only=True)
class CampaignResults(Answer):
    """The answer of `campaign`, whose results lie in the folder.

    Attributes:
        out: the folder.
        seconds: wall time.
        jobs: what became of every job.
        measures: passes as rates, and speeds of decoding.
    """

    name: ClassVar[str] = ""
    is_written: ClassVar[bool] = True
    out: Path
    seconds: float
    jobs: Sequence[JobOutcome]
    measures: Measures

    @property
    def own_rows(self) -> Sequence[JobOutcome]:
        """The jobs."""
        return self.jobs

    def shown(self) -> Iterator[Table | str]:
        """The jobs, passes as rates beside the copy rate, and speeds of decoding."""
        yield Table(
            title=f"{self.seconds:.0f} s",
            rows=[
                JobLine(
                    job=job.name,
                    state=job.state,
                    rows=job.rows,
                    seconds=job.seconds,
                    reason=job.reason[:_MOST_REASON],
                )
                for job in self.jobs
            ],
            columns=["job", "state", "rows", "seconds", "reason"],
        )
        if self.measures.steps:
            copy = self.measures.copy_bytes_per_s
            yield Table(
                title="passes: weights and cache read once",
                rows=[_pass(rate) for rate in self.measures.steps],
                columns=[
                    "what",
                    "requests",
                    "query_tokens",
                    "context",
                    "median_ms",
                    "gigabytes_per_s",
                    "copy_ratio",
                ],
                caption=(
                    "no copy was measured"
                    if copy is None
                    else f"a copy moves {copy / GIGA:.1f} GB/s"
                ),
            )
        if self.measures.decode:
            yield Table(
                title="decoding: medians over prompts, against plain",
                rows=[_speed(speed) for speed in self.measures.decode],
                columns=[
                    "what",
                    "prompts",
                    "runs",
                    "disturbed",
                    "differing",
                    "tokens_per_step",
                    "tokens_per_s",
                    "draft_ratio",
                    "speedup",
                    "interval",
                    "request_speedup",
                ],
            )
        yield f"results in {self.out}"


def answer(question: CampaignQuestion) -> CampaignResults:
    """Measure what a campaign file lists, most important first, until the budget is spent.

    Raises:
        InputError: a file that cannot be read, or a folder that holds other results.
    """
    require_folder(question.out)
    file = shipped_campaign(question.file)
    report = run_campaign(
        file,
        budget_s=question.budget_s,
        out=question.out,
        resume=question.resume,
        isolate=question.isolate,
        model_file=question.model,
        progress=progress_lines(question.quiet),
    )
    return CampaignResults(
        inputs=inputs_of(question, budget_s=question.budget_s),
        out=question.out,
        seconds=report.seconds,
        jobs=report.outcomes,
        measures=report.measures,
    )


def shipped_campaign(file: Path) -> Path:
    """The file itself where it exists, else the shipped campaign of that name."""
    shipped = (
        Path(str(real_runs.__file__)).parent
        / "campaigns"
        / f"{file.name.removesuffix('.yaml')}.yaml"
    )
    return shipped if not is_place(file) and len(file.parts) == 1 and shipped.exists() else file


def _pass(rate: PassRate) -> PassLine:
    return PassLine(
        what=(
            f"{rate.model}, {rate.layers} layers, {rate.dtype}, {rate.implementation}, {rate.mask}"
        ),
        requests=rate.requests,
        query_tokens=rate.query_tokens,
        context=rate.context,
        median_ms=rate.median_s / MILLI,
        gigabytes_per_s=rate.bytes_per_s / GIGA,
        copy_ratio=rate.copy_ratio,
    )


def _speed(speed: Speed) -> SpeedLine:
    return SpeedLine(
        what=f"{speed.configuration}, {speed.kind}",
        prompts=speed.prompts,
        runs=speed.runs,
        disturbed=speed.disturbed,
        differing=speed.differing,
        tokens_per_step=speed.tokens_per_step,
        tokens_per_s=speed.tokens_per_s,
        draft_ratio=speed.draft_ratio,
        speedup=speed.speedup,
        interval="–".join(f"{end:.2f}" for end in speed.speedup_interval or ()),
        request_speedup=speed.request_speedup,
    )
