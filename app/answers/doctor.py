"""What does this machine have, what would run on it, and would measurements on its GPU be true?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.answers.campaign import ForecastLine, forecast_lines, forecast_table
from app.answers.progress import progress_lines
from app.questions.doctor import DoctorQuestion
from app.questions.field import inputs_of
from costmodel.architectures.library import load_model
from costmodel.passes.deployment import Deployment
from costmodel.passes.forward import pass_cost
from costmodel.passes.precision import Precision
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.loader import load_device
from hardware_profiles.profile import Device
from real_runs.campaigns.campaign import opened_campaign
from real_runs.campaigns.forecast import forecast
from real_runs.campaigns.shipped import campaign_file
from real_runs.doctor import Finding, diagnose
from real_runs.models.loading.weights import SHIPPED_NAME

_RECORDING = "gpu-record"
_USUAL_CARD = "h100-sxm"  # of a forecast where no GPU is here and none is named
_CONTEXT = 256  # tokens that a pass of a recording finds in the cache, about
_MOST_CHARACTERS = 70  # of a detail on the screen


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingRow(Row):
    """One thing that was looked for."""

    what: Annotated[str, Column("Its name.")]
    state: Annotated[str, Column("`here`, `absent` or `broken`.")]
    detail: Annotated[str, Column("Version, size, or what is wrong.")]
    serves: Annotated[str, Column("What needs it.", "for")]

    @property
    def brief(self) -> Annotated[str, Column("The detail.", "detail", of=("detail",))]:
        """The beginning of the detail."""
        return self.detail[:_MOST_CHARACTERS]


@dataclass(frozen=True, kw_only=True, slots=True)
class VerbRow(Row):
    """Verbs that need the same, and what of it is missing."""

    verb: Annotated[str, Column("The verbs.")]
    missing: Annotated[str, Column("What they lack.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeRow(Row):
    """What a probe of the GPU found."""

    probe: Annotated[str, Column("Its name.")]
    state: Annotated[
        str, Column("`ok`, `slow`, `wrong` (its numbers would not be true) or `absent`.")
    ]
    detail: Annotated[str, Column("In words and numbers.")]
    advice: Annotated[str, Column("What to do.", "what to do")]
    seconds: Annotated[float, Column("That it took.", unit="s")]


@dataclass(frozen=True, kw_only=True)
class MachineDiagnosis(Answer):
    """What this machine has.

    Attributes:
        machine: processor, threads, memory, devices.
        libraries: that parts of rooftree need.
        back_ends: optional ones.
        weights: models that real runs find by themselves.
        verbs: by verb what is missing; empty where it would run.
    """

    name: ClassVar[str] = ""
    is_written: ClassVar[bool] = True  # it has no files
    machine: Sequence[FindingRow]
    libraries: Sequence[FindingRow]
    back_ends: Sequence[FindingRow]
    weights: Sequence[FindingRow]
    verbs: Mapping[str, str]

    @property
    def own_rows(self) -> Sequence[FindingRow]:
        """All findings."""
        return [*self.machine, *self.libraries, *self.back_ends, *self.weights]

    def shown(self) -> Iterator[Table]:
        """The findings, and what would run."""
        yield Table(
            title="this machine",
            rows=self.own_rows,
            columns=["what", "state", "brief", "serves"],
        )
        yield Table(
            title="what would run",
            rows=[VerbRow(verb=v, missing=why or "nothing") for v, why in self.verbs.items()],
            columns=["verb", "missing"],
        )


@dataclass(frozen=True, kw_only=True)
class GpuDiagnosis(Answer):
    """Whether a GPU does what measurements on it rest on.

    Attributes:
        findings: of its probes.
        records: what `rooftree campaign gpu-record` would record on it.
        sentences: what that takes.
        absent: why no such GPU is here, and what is recorded was forecast for another machine.
    """

    name: ClassVar[str] = ""
    is_written: ClassVar[bool] = True  # it has no files
    findings: Sequence[ProbeRow]
    records: Sequence[ForecastLine]
    sentences: Sequence[str]
    absent: str | None = None

    @property
    def own_rows(self) -> Sequence[ProbeRow]:
        """The probes."""
        return self.findings

    def shown(self) -> Iterator[Table | str]:
        """The probes, and what a campaign would record."""
        yield Table(
            title=self.inputs["device"],
            rows=self.findings,
            columns=["probe", "state", "detail", "advice"],
        )
        yield forecast_table(f"rooftree campaign {_RECORDING} would record", self.records)
        yield from self.sentences

    def require(self) -> None:
        """End where there is no such GPU, or its numbers would not be true.

        Raises:
            InputError: naming the probes.
        """
        if self.absent is not None:
            raise InputError(self.absent, key="--device", value=self.inputs["device"])
        wrong = [row.probe for row in self.findings if row.state == "wrong"]
        if wrong:
            raise InputError(
                f"gives no true numbers: {', '.join(wrong)}",
                key="--device",
                value=self.inputs["device"],
            )


def answer(question: DoctorQuestion) -> MachineDiagnosis | GpuDiagnosis:
    """What this machine has, or with `--gpu` what the probes of its GPU found.

    Raises:
        InputError: there is no such device.
    """
    if question.gpu:
        return _examined(question)
    diagnosis = diagnose()
    return MachineDiagnosis(
        inputs=inputs_of(question),
        machine=_rows(diagnosis.machine),
        libraries=_rows(diagnosis.libraries),
        back_ends=_rows(diagnosis.back_ends),
        weights=_rows(diagnosis.weights),
        verbs=diagnosis.verbs,
    )


def _rows(findings: Sequence[Finding]) -> list[FindingRow]:
    return [FindingRow(**asdict(finding)) for finding in findings]


def _examined(question: DoctorQuestion) -> GpuDiagnosis:
    """Run the probes of a GPU, each in a process of its own; where it is not here, say what a
    campaign would record on one.
    """
    # they load torch, which the machine may lack
    from real_runs.gpu_doctor import examine
    from real_runs.models.device import checked_device

    expected = forecast(opened_campaign(campaign_file(Path(_RECORDING))))
    diagnosis = GpuDiagnosis(
        inputs=inputs_of(question),
        findings=(),
        records=forecast_lines(expected),
        sentences=expected.sentences,
    )
    try:
        checked_device(question.device)
    except InputError as error:
        if (card := _forecast_card(question.device)) is None:
            raise
        return replace(
            diagnosis,
            sentences=[*expected.sentences, _pace(card), "no GPU of this machine was tried"],
            absent=error.message,
        )
    tell = progress_lines(question.quiet)
    results = examine(
        question.device,
        progress=lambda result: tell(f"{result.probe}: {result.state}, {result.seconds:.1f} s"),
    )
    return replace(diagnosis, findings=[ProbeRow(**asdict(result)) for result in results])


def _forecast_card(device: str) -> Device | None:
    """The profile of a GPU that is not here: the one of that name, or the usual one for `cuda`."""
    try:
        card = load_device(_USUAL_CARD if device.partition(":")[0] == "cuda" else device)
    except UnknownNameError:
        return None
    return card if card.kind == "gpu" else None


def _pace(card: Device) -> str:
    """What the forecast's seconds rest on, and whether that holds on a card.

    Raises:
        InputError: the card has no peak in the format of a recording.
    """
    deployment = Deployment(
        architecture=load_model(SHIPPED_NAME),
        device=card,
        precision=Precision(weights="bf16", activations="bf16", kv="bf16"),
        fidelity="calibrated",
    )
    kernels_s = float(pass_cost(deployment, batch=1, query_tokens=1, context=_CONTEXT).total_s)
    return (
        f"seconds rest on passes of 9 to 17 ms, in which an H100 waits for launches; the kernels of"
        f" one take {kernels_s * 1e3:.1f} ms on {card.name}"
    )
