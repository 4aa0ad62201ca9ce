"""Which devices are shipped, where does every number of one come from, and what does a file for a
new one hold?
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.answers.calibration.profile_file import check_profile_file
from app.answers.numbers import plain
from app.answers.progress import progress_lines
from app.questions.devices import DevicesQuestion
from app.questions.field import LIST, inputs_of
from hardware_profiles.errors import InputError
from hardware_profiles.loader import device_names, load_device
from hardware_profiles.profile import KINDS, Device
from hardware_profiles.template import device_template
from hardware_profiles.units import GIB, GIGA, MIB, MICRO, TERA
from hardware_profiles.whole_file import whole_file
from hardware_profiles.writer import device_text

if TYPE_CHECKING:
    from real_runs.calibration.measured import MeasuredDevice

_USUAL_UNITS = (
    ("flops_per_s.", TERA, "TFLOP/s"),
    ("bytes_per_s.", GIGA, "GB/s"),
    ("bytes.", MIB, "MiB"),
    ("_s.", MICRO, "µs"),
)  # the end of a key, or of what its number formats belong to; the unit in SI; its name


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceRow(Row):
    """A device profile in a list."""

    name: Annotated[str, Column("As `--device` takes it.")]
    title: Annotated[str, Column("As its maker calls it.")]
    kind: Annotated[str, Column("`gpu`, `cpu` or `accelerator`.")]
    memory_bytes: Annotated[float, Column("Memory of the device.")]
    bandwidth_bytes_per_s: Annotated[float, Column("Peak bandwidth of its memory.")]
    peak_flops_per_s: Annotated[Mapping[str, float], Column("Peak rate by number format.")]
    processors: Annotated[int, Column("Streaming multiprocessors, or what stands for them.")]
    power_w: Annotated[float, Column("Power limit in watts.")]
    price_usd_per_hour: Annotated[float | None, Column("Rent, where it is known.")]
    driver_names: Annotated[Sequence[str], Column("What drivers call it.")]
    calibrated: Annotated[bool, Column("Whether its own kernels were measured.")]
    constants_from: Annotated[str, Column("The relative whose kernels stand in for its own.")]

    @property
    def memory(self) -> Annotated[str, Column("Memory.", "GiB", of=("memory_bytes",))]:
        """Memory in GiB, to two digits."""
        return plain(self.memory_bytes / GIB, 2)

    @property
    def bandwidth(
        self,
    ) -> Annotated[str, Column("Bandwidth.", "GB/s", of=("bandwidth_bytes_per_s",))]:
        """Bandwidth in GB/s, to two digits."""
        return plain(self.bandwidth_bytes_per_s / GIGA, 2)

    @property
    def half_precision(
        self,
    ) -> Annotated[float, Column("Peak rate.", "16-bit TFLOP/s", of=("peak_flops_per_s",))]:
        """The best rate of formats of 16 bits, and of 32 where a processor has no others."""
        rates = (self.peak_flops_per_s.get(dtype, 0.0) for dtype in ("bf16", "fp16", "fp32"))
        return max(rates) / TERA

    @property
    def measured_on(
        self,
    ) -> Annotated[str, Column("Source.", "constants from", of=("calibrated", "constants_from"))]:
        """Whose kernels were measured."""
        return "itself" if self.calibrated else self.constants_from or "assumed"


@dataclass(frozen=True, kw_only=True)
class Devices(Answer):
    """Device profiles.

    Attributes:
        devices: a row each; the whole profile where one was named.
        rows: the same as rows of the list.
    """

    name: ClassVar[str] = "devices"
    unwritten: ClassVar[tuple[str, ...]] = ("rows",)
    devices: Sequence[DeviceRow | Device]
    rows: Sequence[DeviceRow]

    @property
    def own_rows(self) -> Sequence[DeviceRow | Device]:
        """The devices."""
        return self.devices

    def shown(self) -> Iterator[Table | str]:
        """The list, and every number of a device that was named, by source."""
        yield Table(
            title="Devices",
            rows=self.rows,
            columns=["name", "title", "memory", "bandwidth", "half_precision", "measured_on"],
        )
        for device in self.devices:
            if isinstance(device, Device):
                yield from _sourced(device)


@dataclass(frozen=True, kw_only=True)
class NewDevice(Answer):
    """A device file to fill in, or one of what was timed here.

    Attributes:
        template: its text.
        file: where it was written; None: nowhere.
        measured: the device that was timed; None: nothing was.
        not_measured: what could not be timed, and why.
    """

    name: ClassVar[str] = ""
    is_written: ClassVar[bool] = True
    unwritten: ClassVar[tuple[str, ...]] = ("measured",)
    template: str
    file: Path | None
    measured: Device | None = None
    not_measured: Sequence[str] = ()

    @property
    def own_rows(self) -> Sequence[Row]:
        """None: it is a text."""
        return ()

    def shown(self) -> Iterator[str]:
        """The text, or where it was written and what was timed."""
        if self.file is None:
            yield self.template.rstrip()
            return
        if self.measured is not None:
            yield f"{self.measured.title}, as measured:"
            yield from _sourced(self.measured, {"measured"})
            yield from (f"  not measured: {reason}" for reason in self.not_measured)
        yield f"wrote {self.file}; ask about it as --device {self.file}"
        if self.measured is not None:
            yield (
                "beside runs of llama.cpp: rooftree validate --engine llama.cpp --model FILE.gguf"
                f" --profile {self.file} --fidelity calibrated"
            )


def answer(question: DevicesQuestion) -> Devices | NewDevice:
    """Profiles that are shipped, one of them in full, or a file for another.

    Raises:
        InputError: an unknown name, an option that needs one, or a file that exists already.
    """
    if question.name == LIST:
        question = replace(question, name=None)
    if question.name == "new":
        return _new_device(question)
    if question.new is not None:
        raise InputError(
            "a second word follows `new` alone; `rooftree devices NAME` shows one",
            key="devices",
            value=question.new,
        )
    if question.measure:
        raise InputError("measures a new device: rooftree devices new NAME", key="--measure")
    overrides = question.overrides or ()
    if question.name is None:
        if overrides:
            raise InputError("--set needs the name of one device")
        rows = [_row(load_device(name)) for name in device_names()]
        return Devices(inputs=inputs_of(question), devices=rows, rows=rows)
    device = load_device(question.name, overrides)
    return Devices(inputs=inputs_of(question), devices=[device], rows=[_row(device)])


def _sourced(device: Device, kinds: Collection[str] = KINDS) -> Iterator[str]:
    """What a device's numbers of some kinds are, those of one group with one source in a line."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    constants = {key for key in device.provenance if key.startswith("constants.")}
    for key in [*sorted(device.provenance.keys() - constants), *sorted(constants)]:
        origin = device.provenance[key]
        if origin.kind not in kinds:
            continue
        group, _, name = key.removeprefix("constants.").rpartition(".")
        number = _in_usual_unit(key, reduce(_within, key.split("."), device))
        written = f"{name} {number}"
        groups.setdefault((group, origin.kind, origin.source), []).append(written)
    for (group, kind, source), numbers in groups.items():
        yield f"  {group + ': ' if group else ''}{', '.join(numbers)} ({kind}: {source})"


def _in_usual_unit(key: str, number: Any) -> str:
    """A number of a device as datasheets write it."""
    if not isinstance(number, float):
        return str(number)
    for suffix, unit_si, unit in _USUAL_UNITS:
        if suffix in f"{key}.":
            return f"{plain(number / unit_si, 4)} {unit}"
    return plain(number, 4)


def _within(holder: Any, name: str) -> Any:
    return holder[name] if isinstance(holder, Mapping) else getattr(holder, name)


def _row(device: Device) -> DeviceRow:
    return DeviceRow(**{name: getattr(device, name) for name in DeviceRow.__dataclass_fields__})


def _new_device(question: DevicesQuestion) -> NewDevice:
    """A device file to fill in, on the screen or where it is to stand; a file that is there is
    never replaced.
    """
    if question.new is None:
        raise InputError("the new device needs a name: rooftree devices new NAME")
    file = question.out
    if file is not None and file.exists():
        raise InputError("exists already; name another file", file=file, key="--out")
    check_profile_file(file)
    timed = _measured(question, question.new) if question.measure else None
    template = (
        device_text(timed.device)
        if timed
        else device_template(question.new, question.like or "h100-sxm")
    )
    if file is not None:
        with whole_file(file) as part:
            part.write_text(template, encoding="utf-8")
    return NewDevice(
        inputs=inputs_of(question),
        template=template,
        file=file,
        measured=timed.device if timed else None,
        not_measured=timed.skipped if timed else (),
    )


def _measured(question: DevicesQuestion, name: str) -> "MeasuredDevice":
    # needs torch, which profiles do not
    from real_runs.calibration.measured import measure_device

    return measure_device(
        name,
        device=question.on,
        like=question.like,
        threads=question.threads,
        budget_s=question.budget_s,
        progress=progress_lines(question.quiet),
    )
