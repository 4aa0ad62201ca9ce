"""`campaign`: run a list of measurements within a time budget."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.answers.progress import progress_lines
from app.questions.campaign import CampaignQuestion
from app.questions.field import inputs_of
from app.questions.places import require_folder
from hardware_profiles.units import GIGA, MIB, MILLI
from real_runs.campaigns.campaign import JobOutcome, finished_jobs, opened_campaign, run_campaign
from real_runs.campaigns.decode_summary import Speed
from real_runs.campaigns.forecast import Forecast, JobForecast, forecast
from real_runs.campaigns.measures import Measures, PassRate
from real_runs.campaigns.shipped import campaign_file

_MOST_REASON = 80  # characters


@dataclass(frozen=True, kw_only=True, slots=True)
class JobLine(Row):
    """What became of a job, as its table shows it."""

    job: Annotated[str, Column("Its name.")]
    state: Annotated[str, Column("Finished, cut, failed, skipped or stopped.")]
    rows: Annotated[int, Column("Rows, runs or trace files of it.")]
    seconds: Annotated[float, Column("Wall time.", decimals=0)]
    forecast_s: Annotated[float | None, Column("What it should take.", "of about", decimals=0)]
    mib: Annotated[float | None, Column("Of its trace files.", "MiB", decimals=2)]
    forecast_mib: Annotated[float | None, Column("What they should take.", "of about", decimals=2)]
    reason: Annotated[str, Column("Why it is not finished.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecastLine(Row):
    """What a job should take."""

    job: Annotated[str, Column("Its name.")]
    what: Annotated[str, Column("What it does.")]
    forecast_s: Annotated[float, Column("Wall time.", "s", decimals=0)]
    forecast_mib: Annotated[float, Column("Of its results.", "MiB", decimals=2)]
    fits: Annotated[str, Column("Whether the budget has room for it: yes, in part or no.")]


@dataclass(frozen=True, kw_only=True)
class CampaignForecast(Answer):
    """The answer of `campaign --dry-run`.

    Attributes:
        title: of the campaign.
        jobs: in the order they are tried.
        sentences: time and sizes of all that fit, and what does not.
        seconds: of the jobs that fit.
        bytes: of their results.
        weights: bytes of every file of weights by name.
    """

    name: ClassVar[str] = ""
    is_written: ClassVar[bool] = True
    title: str
    jobs: Sequence[ForecastLine]
    sentences: Sequence[str]
    seconds: float
    bytes: int
    weights: Mapping[str, int]

    @property
    def own_rows(self) -> Sequence[ForecastLine]:
        """The jobs."""
        return self.jobs

    def shown(self) -> Iterator[Table | str]:
        """The jobs, and what they take together."""
        yield forecast_table(self.title, self.jobs)
        yield from self.sentences


def forecast_table(title: str, jobs: Sequence[ForecastLine]) -> Table:
    """The jobs of a campaign with what they should take."""
    columns = ["job", "what", "forecast_s", "forecast_mib", "fits"]
    return Table(title=title, rows=jobs, columns=columns)


def forecast_lines(expected: Forecast) -> list[ForecastLine]:
    """The jobs of a forecast, as their table shows them."""
    return [
        ForecastLine(
            job=job.name,
            what=job.what,
            forecast_s=job.seconds,
            forecast_mib=job.bytes / MIB,
            fits=job.fits,
        )
        for job in expected.jobs
    ]


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
        expected: what was forecast of those that this call had to do.
        measures: passes as rates, and speeds of decoding.
    """

    name: ClassVar[str] = ""
    is_written: ClassVar[bool] = True
    out: Path
    seconds: float
    jobs: Sequence[JobOutcome]
    expected: Sequence[JobForecast]
    measures: Measures

    @property
    def own_rows(self) -> Sequence[JobOutcome]:
        """The jobs."""
        return self.jobs

    def shown(self) -> Iterator[Table | str]:
        """The jobs, passes as rates beside the copy rate, and speeds of decoding."""
        yield Table(
            title=f"{self.seconds:.0f} s",
            rows=[_job_line(job, self.expected) for job in self.jobs],
            columns=[
                "job",
                "state",
                "rows",
                "seconds",
                "forecast_s",
                "mib",
                "forecast_mib",
                "reason",
            ],
        )
        if left := [job.name for job in self.jobs if job.state != "finished"]:
            yield f"left out: {', '.join(left)}; --resume goes on with them"
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


def answer(question: CampaignQuestion) -> CampaignResults | CampaignForecast:
    """Measure what a campaign file lists, most important first, until the budget is spent.

    Raises:
        InputError: a file that cannot be read, or a folder that holds other results.
    """
    require_folder(question.out)
    file = campaign_file(question.file)
    campaign = opened_campaign(file, model_file=question.model, device=question.device)
    done = finished_jobs(question.out, campaign) if question.resume else ()
    expected = forecast(campaign, budget_s=question.budget_s, fits=question.fits, done=done)
    if question.dry_run:
        return CampaignForecast(
            inputs=inputs_of(question, budget_s=expected.budget_s),
            title=expected.title,
            jobs=forecast_lines(expected),
            sentences=expected.sentences,
            seconds=expected.seconds,
            bytes=expected.bytes,
            weights=dict(expected.weights),
        )
    tell = progress_lines(question.quiet)
    for sentence in expected.sentences:
        tell(f"forecast: {sentence}")
    report = run_campaign(
        file,
        budget_s=question.budget_s,
        out=question.out,
        resume=question.resume,
        isolate=question.isolate,
        model_file=question.model,
        device=question.device,
        fits=question.fits,
        progress=tell,
    )
    return CampaignResults(
        inputs=inputs_of(question, budget_s=expected.budget_s),
        out=question.out,
        seconds=report.seconds,
        jobs=report.outcomes,
        expected=expected.jobs,
        measures=report.measures,
    )


def _job_line(job: JobOutcome, expected: Sequence[JobForecast]) -> JobLine:
    of_job = next((one for one in expected if one.name == job.name), None)
    return JobLine(
        job=job.name,
        state=job.state,
        rows=job.rows,
        seconds=job.seconds,
        forecast_s=of_job.seconds if of_job else None,
        mib=job.bytes / MIB if job.bytes else None,
        forecast_mib=of_job.bytes / MIB if of_job and job.bytes else None,
        reason=job.reason[:_MOST_REASON],
    )


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
