"""Predicted beside measured: the errors of a validation, by group and over all, and its report."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.questions.field import inputs_of
from app.questions.validate import ValidateQuestion
from hardware_profiles.whole_file import whole_file

if TYPE_CHECKING:
    from real_runs.campaigns.campaign import JobOutcome
    from real_runs.gpu_doctor import ProbeResult
    from real_runs.validation.masked.validate import FloorChoice, ReplayedSetting
    from real_runs.validation.score import ErrorSummary, Point, Regret

_MOST_LEFT_OUT = 20
_COMMANDS = "commands.md"


@dataclass(frozen=True, kw_only=True, slots=True)
class Errors(Row):
    """Errors over configurations: |predicted / measured - 1|; what a report lacks is None."""

    configurations: Annotated[int, Column("How many were scored.")]
    median_error_ratio: Annotated[
        float, Column("Median error of tokens/s.", "median", unit="ratio", decimals=1)
    ]
    p90_error_ratio: Annotated[
        float, Column("Its ninetieth percentile.", "p90", unit="ratio", decimals=1)
    ]
    step_median_error_ratio: Annotated[
        float | None, Column("Median error of the time of a step.", unit="ratio")
    ]
    tokens_per_step_median_error_ratio: Annotated[
        float | None, Column("Median error of the tokens of a step.", unit="ratio")
    ]
    bias_ratio: Annotated[float | None, Column("Median of the errors with signs.", unit="ratio")]
    coverage_ratio: Annotated[
        float,
        Column("Share of the 80 % intervals that cover.", "covered", unit="ratio", decimals=0),
    ]
    median_half_width_ratio: Annotated[
        float | None, Column("Median half width of the intervals.", unit="ratio")
    ]
    mean_regret_ratio: Annotated[
        float | None, Column("What the choices cost on average.", unit="ratio")
    ]
    most_regret_ratio: Annotated[float | None, Column("What the worst choice cost.", unit="ratio")]

    @property
    def sentence(self) -> str:
        """The outcome in words."""
        lost = self.mean_regret_ratio
        regret = (
            ""
            if lost is None
            else f" What was chosen is {lost:.1%} slower than the best measured, on average."
        )
        return (
            f"{self.configurations} configurations: tokens per second off by"
            f" {self.median_error_ratio:.1%} in the median and {self.p90_error_ratio:.1%} at the"
            f" ninetieth percentile; the 80 % intervals cover {self.coverage_ratio:.0%}.{regret}"
        )


def read_errors(summary: Mapping[str, Any]) -> Errors:
    """The errors that stand in a report, which an earlier version may have written."""
    values: dict[str, Any] = {field.name: summary.get(field.name) for field in fields(Errors)}
    return Errors(**values)


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupErrors(Row):
    """The errors of a group of configurations, as its table shows them."""

    group: Annotated[str, Column("What its configurations share.")]
    configurations: Annotated[int, Column("How many were scored.")]
    median: Annotated[float, Column("Median error.", unit="ratio", decimals=1)]
    p90: Annotated[float, Column("Its ninetieth percentile.", unit="ratio", decimals=1)]
    bias: Annotated[str, Column("Median of the errors with signs.")]
    covered: Annotated[float, Column("Intervals that cover.", unit="ratio", decimals=0)]


@dataclass(frozen=True, kw_only=True, slots=True)
class LostSpeed(Row):
    """What the choice of a cell cost."""

    cell: Annotated[str, Column("Prompts, context and batch.")]
    chosen: Annotated[str, Column("What was chosen.")]
    best: Annotated[str, Column("The best that was measured.")]
    chosen_tokens_per_s: Annotated[float, Column("Of the choice.", "tokens/s", decimals=1)]
    best_tokens_per_s: Annotated[float, Column("Of the best.", "best", decimals=1)]
    regret_ratio: Annotated[
        float, Column("1 - the choice's over the best's.", "regret", unit="ratio", decimals=1)
    ]
    speedup: Annotated[float, Column("Of the choice against no speculation.", decimals=2)]


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut(Row):
    """What was not scored."""

    what: Annotated[str, Column("With the reason.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepErrorsRow(Row):
    """Single steps that a recording timed, predicted beside measured."""

    kind: Annotated[str, Column("Of the prompts, with the sampling mode.")]
    context: Annotated[int, Column("Cached tokens, as the nearest power of two.")]
    batch: Annotated[int, Column("Requests that began together.")]
    configuration: Annotated[str, Column("What ran.")]
    steps: Annotated[int, Column("Passes that were compared.")]
    measured_s: Annotated[float, Column("Median seconds of a step.", unit="s", decimals=5)]
    predicted_s: Annotated[
        float, Column("Median of what was predicted of the same steps.", unit="s", decimals=5)
    ]
    step_error_ratio: Annotated[
        float, Column("Median error of a step's seconds.", "off", unit="ratio", decimals=1)
    ]
    draft_error_ratio: Annotated[
        float | None, Column("Of its drafting.", "drafting off", unit="ratio", decimals=1)
    ]
    verify_error_ratio: Annotated[
        float, Column("Of its verify pass.", "verifying off", unit="ratio", decimals=1)
    ]
    agreeing_ratio: Annotated[
        float,
        Column("Steps that emit what the recording says.", "agreeing", unit="ratio", decimals=0),
    ]


@dataclass(frozen=True, kw_only=True)
class ValidationReport(Answer):
    """The report of runs beside what was predicted of them.

    Attributes:
        about: provenance: model, device, versions, times.
        summary: errors over all points.
        by: errors by kind and batch, by drafter and by context; of each, by group.
        regrets: what the choices cost.
        points: predicted beside measured, a configuration in a cell each.
        costs: of the loop or of forwards, as fitted.
        missing_runs: that the budget left out.
        left_out: configurations that were not scored, with the reason.
        choices: of refined blocks, by floor of agreement.
        replays: of refined blocks, what recordings alone say.
        steps: of a timed recording, errors of single steps.
        doctor: probes of a card.
        jobs: outcomes by campaign.
        profile_file: name of the profile that was fitted to the card.
        out: the folder of the report.
        card_profile: where that profile lies.
    """

    name: ClassVar[str] = "validation"
    unwritten: ClassVar[tuple[str, ...]] = ("out", "card_profile")
    about: Mapping[str, Any]
    summary: Errors
    by: Mapping[str, Mapping[str, Errors]]
    regrets: Sequence["Regret"]
    points: Sequence["Point"]
    costs: Mapping[str, object]
    missing_runs: int
    left_out: Sequence[str]
    choices: Sequence["FloorChoice"] | None = None
    replays: Sequence["ReplayedSetting"] | None = None
    steps: Sequence[StepErrorsRow] | None = None
    doctor: Sequence["ProbeResult"] | None = None
    jobs: Mapping[str, Sequence["JobOutcome"]] | None = None
    profile_file: str | None = None
    out: Path
    card_profile: Path | None = None

    @property
    def own_rows(self) -> Sequence["Point"]:
        """The points."""
        return self.points

    def shown(self) -> Iterator[Table | str]:
        """The outcome, errors by group, what the choices cost, and what was left out."""
        yield self.summary.sentence
        for title, groups in self.by.items():
            yield Table(
                title=f"by {title}",
                rows=_group_rows(groups),
                columns=["group", "configurations", "median", "p90", "bias", "covered"],
            )
        if self.steps:
            yield Table(
                title="step by step",
                rows=self.steps,
                columns=[
                    "configuration",
                    "batch",
                    "context",
                    "steps",
                    "step_error_ratio",
                    "draft_error_ratio",
                    "verify_error_ratio",
                    "agreeing_ratio",
                ],
            )
        if self.regrets:
            yield Table(
                title="what the choice cost",
                rows=[_lost(regret) for regret in self.regrets],
                columns=[
                    "cell",
                    "chosen",
                    "best",
                    "chosen_tokens_per_s",
                    "best_tokens_per_s",
                    "regret_ratio",
                    "speedup",
                ],
            )
        skipped = [*self.left_out, *([f"{self.missing_runs} runs"] if self.missing_runs else [])]
        if skipped:
            rows = [LeftOut(what=what) for what in skipped[:_MOST_LEFT_OUT]]
            yield Table(title="left out", rows=rows, columns=["what"])
        page = self.out / "validation.html"
        yield f"report in {page if page.exists() else self.out / 'validation.json'}"
        if self.card_profile is not None:
            yield (
                f"profile of this card in {self.card_profile}; validation.html and validation.json"
                " are what to share"
            )

    def writers(self) -> Sequence[Callable[[Path, Path], object]]:
        """The command lines of a server that was started here."""
        commands = self.about.get("commands")
        return [] if commands is None else [lambda stage, _: write_commands(commands, stage)]


def write_commands(commands: Mapping[str, str], folder: Path) -> None:
    """Write a page with the command line of every configuration that was started."""
    lines = [f"- {name}\n\n      {command}\n" for name, command in commands.items()]
    with whole_file(folder / _COMMANDS) as part:
        part.write_text("\n".join(["# What was started\n", *lines]), encoding="utf-8")


def errors_of(summary: "ErrorSummary") -> Errors:
    """The errors of scored points."""
    return Errors(**asdict(summary))


def errors_by_group(
    groups: "Mapping[str, Mapping[str, ErrorSummary]]",
) -> dict[str, dict[str, Errors]]:
    """The errors of every group of scored points."""
    return {
        title: {name: errors_of(summary) for name, summary in summaries.items()}
        for title, summaries in groups.items()
    }


def report_inputs(question: ValidateQuestion, **resolved: Any) -> dict[str, Any]:
    """What was asked, without where it lies: a report is to be shared.

    Args:
        question: whose files stand by their names alone.
        resolved: values by keyword that say more than what was stated.
    """
    return {
        name: value.name if isinstance(value, Path) else value
        for name, value in inputs_of(question, **resolved).items()
    }


def _group_rows(groups: Mapping[str, Errors]) -> list[GroupErrors]:
    return [
        GroupErrors(
            group=name,
            configurations=errors.configurations,
            median=errors.median_error_ratio,
            p90=errors.p90_error_ratio,
            bias=f"{errors.bias_ratio:+.1%}",
            covered=errors.coverage_ratio,
        )
        for name, errors in groups.items()
    ]


def _lost(regret: "Regret") -> LostSpeed:
    return LostSpeed(
        cell=f"{regret.kind}, {regret.context or 'as they are'}, batch {regret.batch}",
        chosen=regret.chosen,
        best=regret.best,
        chosen_tokens_per_s=regret.chosen_tokens_per_s,
        best_tokens_per_s=regret.best_tokens_per_s,
        regret_ratio=regret.regret_ratio,
        speedup=regret.chosen_tokens_per_s / regret.plain_tokens_per_s,
    )
