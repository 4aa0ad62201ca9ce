"""What does a device file look like, and which files are refused?

The pydantic models below describe `data/<device>.toml` and the files that users write. Numbers
stand in the scaled units that datasheets use, each beside its kind and source; `si` turns them into
SI. Ranges are checked where the numbers live, in `hardware_profiles.profile`. Reading files,
relatives and overrides are left to `hardware_profiles.loader`.
"""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hardware_profiles.errors import InputError, UnknownNameError, joined
from hardware_profiles.fitted.corrections import MOST_NODES, Correction
from hardware_profiles.fitted.residuals import MOST_REGIMES
from hardware_profiles.profile import Kind
from hardware_profiles.units import GIGA, MEGA, TERA

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Text = Annotated[str, Field(min_length=1, max_length=1000)]
# a dot would be ambiguous in `--set device.<key>`, a slash in a path
NAME_PATTERN = r"^[a-z0-9]+(--?[a-z0-9]+)*$"
Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=80)]

MOST_NAMES = 32
NORMAL_QUANTILE_80 = 0.8416212335729143
NORMAL_QUANTILE_90 = 1.2815515655446004


class _FileModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Quantity(_FileModel):
    """A number with its kind and source; each subclass names the one unit it is written in."""

    factor: ClassVar[float] = 1.0
    kind: Kind
    source: Text

    @property
    def si(self) -> float:
        """The number in SI."""
        unit = next(name for name in type(self).model_fields if name not in Quantity.model_fields)
        number: float = getattr(self, unit)
        return number * self.factor


class Gigabytes(Quantity):
    """A capacity, `{ GB = 85.520809984, ... }`; 1 GB is 1e9 bytes."""

    factor = GIGA
    number: float = Field(alias="GB")


class Megabytes(Quantity):
    """A cache size, `{ MB = 50, ... }`; 1 MB is 1e6 bytes."""

    factor = MEGA
    number: float = Field(alias="MB")


class GigabytesPerSecond(Quantity):
    """A rate of bytes, `{ GB_per_s = 3350, ... }`."""

    factor = GIGA
    number: float = Field(alias="GB_per_s")


class TeraflopsPerSecond(Quantity):
    """A rate of dense arithmetic, `{ TFLOP_per_s = 989.4, ... }`; a multiply-add counts two."""

    factor = TERA
    number: float = Field(alias="TFLOP_per_s")


class Watts(Quantity):
    """A power, `{ W = 700, ... }`."""

    number: float = Field(alias="W")


class DollarsPerHour(Quantity):
    """A rent, `{ usd_per_hour = 2.5, ... }`."""

    number: float = Field(alias="usd_per_hour")


class Count(Quantity):
    """A whole number, `{ count = 132, ... }`."""

    factor = 1
    number: int = Field(alias="count")


class Factor(Quantity):
    """A widening of residuals, `{ factor_ratio = 1.5, ... }`, from 1 to 100."""

    number: float = Field(alias="factor_ratio", ge=1.0, le=100.0)


class Peaks(_FileModel):
    """Dense peak by dtype; a dtype that the device does not compute natively is left out."""

    fp32: TeraflopsPerSecond | None = None
    bf16: TeraflopsPerSecond | None = None
    fp16: TeraflopsPerSecond | None = None
    fp8: TeraflopsPerSecond | None = None
    int8: TeraflopsPerSecond | None = None
    fp4: TeraflopsPerSecond | None = None

    def named(self) -> Iterator[tuple[str, TeraflopsPerSecond]]:
        """The dtypes that the file names, with their peaks."""
        for dtype in type(self).model_fields:
            peak: TeraflopsPerSecond | None = getattr(self, dtype)
            if peak is not None:
                yield dtype, peak


class Residual(_FileModel):
    """How far measurements stand from the fitted form: two quantiles of |error|, or the one in
    between.

    Attributes:
        median_ratio: median of |measured / predicted - 1|.
        p90_ratio: its ninetieth percentile.
        p80_ratio: its eightieth percentile, in place of the other two.
        kind: where it differs from the kind of the group.
        source: where it differs from the source of the group.
    """

    median_ratio: float | None = Field(default=None, gt=0.0)
    p90_ratio: float | None = Field(default=None, gt=0.0)
    p80_ratio: float | None = Field(default=None, gt=0.0)
    kind: Kind | None = None
    source: Text | None = None

    @model_validator(mode="after")
    def _one_form(self) -> "Residual":
        pair = (self.median_ratio, self.p90_ratio)
        if (self.p80_ratio is None) == (None in pair) or (self.p80_ratio is not None and any(pair)):
            raise ValueError("give either p80_ratio, or both median_ratio and p90_ratio")
        median, p90 = pair
        if median is not None and p90 is not None and p90 < median:
            raise ValueError("p90_ratio must not be below median_ratio")
        return self

    @property
    def interval_ratio(self) -> float:
        """Half width of the 80 % interval: the eightieth percentile of |measured / predicted -
        1|.
        """
        if self.p80_ratio is not None:
            return self.p80_ratio
        assert self.median_ratio is not None and self.p90_ratio is not None
        return eightieth_percentile(self.median_ratio, self.p90_ratio)


class CorrectionEntry(_FileModel):
    """Corrections of an operation, `{ axes = [[0, 8], [10, 16]], values = [0.01, -0.02, 0, 0]
    }`.
    """

    axes: Annotated[list[Annotated[list[float], Field(max_length=MOST_NODES)]], Field(max_length=4)]
    values: Annotated[list[float], Field(max_length=MOST_NODES)]

    @property
    def correction(self) -> Correction:
        """The table of corrections in the form that the cost model uses."""
        return Correction(axes=tuple(tuple(axis) for axis in self.axes), values=tuple(self.values))


class SourcedConstant(_FileModel):
    """A constant whose kind or source differs from its group's.

    Attributes:
        value: the constant, in the unit of its key.
        kind: where it differs from the group's.
        source: where it differs from the group's.
    """

    value: float
    kind: Kind
    source: Text


class ConstantGroup(BaseModel):
    """The constants of one operation, times in microseconds (`launch_us`); further keys are those
    of the operation's record in `fitted.constants`.

    Attributes:
        kind: of all constants that do not state their own.
        source: of all constants that do not state their own.
        residual: how far measurements stand from the form.
        regimes: lines of `fitted.regime_lines`, where the residual differs over the range.
        correction: what the form leaves, to interpolate in.
    """

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    __pydantic_extra__: dict[str, float | SourcedConstant]

    kind: Kind
    source: Text
    residual: Residual
    regimes: Annotated[list[Text], Field(max_length=MOST_REGIMES)] = []
    correction: CorrectionEntry | None = None


class ConstantsFile(_FileModel):
    """Fitted constants by operation. Without `like`, every operation is needed."""

    like: Name | None = None
    widening: Factor | None = None
    gemm: ConstantGroup | None = None
    attention: ConstantGroup | None = None
    verify: ConstantGroup | None = None
    unsplit: ConstantGroup | None = None
    context: ConstantGroup | None = None
    mla: ConstantGroup | None = None
    moe: ConstantGroup | None = None
    prefill: ConstantGroup | None = None
    elementwise: ConstantGroup | None = None
    sampler: ConstantGroup | None = None
    allreduce: ConstantGroup | None = None
    trtllm: ConstantGroup | None = None
    nccl: ConstantGroup | None = None
    host: ConstantGroup | None = None


class FormatFile(_FileModel):
    """Fitted constants of one number format, by operation."""

    gemm: ConstantGroup | None = None
    mla: ConstantGroup | None = None
    moe: ConstantGroup | None = None
    prefill: ConstantGroup | None = None


class FormatsFile(_FileModel):
    """Number formats whose kernels have constants of their own."""

    fp8: FormatFile | None = None
    int8: FormatFile | None = None
    fp4: FormatFile | None = None
    q4_0: FormatFile | None = None
    q4_1: FormatFile | None = None
    q5_0: FormatFile | None = None
    q5_1: FormatFile | None = None
    q8_0: FormatFile | None = None
    q2_k: FormatFile | None = None
    q3_k: FormatFile | None = None
    q4_k: FormatFile | None = None
    q5_k: FormatFile | None = None
    q6_k: FormatFile | None = None


class DeviceFile(_FileModel):
    """One device file."""

    name: Name
    title: Text
    vendor: Text
    kind: Literal["gpu", "cpu", "accelerator"]
    year: int
    names: Annotated[list[Text], Field(max_length=MOST_NAMES)] = []
    memory: Gigabytes
    bandwidth: GigabytesPerSecond
    cache: Megabytes
    processors: Count
    link: GigabytesPerSecond
    host_link: GigabytesPerSecond
    power: Watts
    price: DollarsPerHour | None = None
    link_devices: Count | None = None
    direct_devices: Count | None = None
    peak: Peaks
    constants: ConstantsFile
    formats: FormatsFile = FormatsFile()


def eightieth_percentile(median: float, p90: float) -> float:
    """The eightieth percentile of a log-normal quantity, from its median and its ninetieth
    percentile.

    ln p80 = ln median + (z80 / z90) (ln p90 - ln median). Errors of fitted kernel models have long
    tails; over the kernel tables behind our constants this lies within a sixth of the percentile
    counted directly.

    Args:
        median: above 0.
        p90: at least `median`.
    """
    return median * math.exp(NORMAL_QUANTILE_80 / NORMAL_QUANTILE_90 * math.log(p90 / median))


def parse_device(content: dict[str, object], file: str) -> DeviceFile:
    """Check the parsed TOML of one device file.

    Args:
        content: parsed TOML.
        file: name for messages.

    Raises:
        InputError: naming the file, the key, the rule and the value of everything that is wrong.
    """
    try:
        return DeviceFile.model_validate(content)
    except ValidationError as error:
        mistakes = sorted(error.errors(), key=lambda detail: detail["type"] != "extra_forbidden")
    misspelt = {detail["loc"][:-1] for detail in mistakes if detail["type"] == "extra_forbidden"}
    errors: dict[str | None, InputError] = {}
    for detail in mistakes:
        if detail["type"] == "missing" and detail["loc"][:-1] in misspelt:
            continue  # the key that is there under a wrong name is missing under its own
        mistake = _mistake(detail, file)
        errors.setdefault(
            mistake.key if detail["type"] != "extra_forbidden" else str(mistake), mistake
        )
    raise joined(list(errors.values()))


def _mistake(detail: "ErrorDetails", file: str) -> InputError:
    keys = [str(part) for part in detail["loc"] if part not in ("float", "SourcedConstant")]
    key = ".".join(keys)
    if detail["type"] == "extra_forbidden":
        parent = ".".join(keys[:-1]) or None
        return UnknownNameError("key", keys[-1], _known_keys(keys[:-1]), file=file, key=parent)
    if detail["type"] == "missing":
        return InputError("is missing", file=file, key=key)
    rule = detail["msg"].removeprefix("Input ").removeprefix("Value error, ")
    return InputError(rule[0].lower() + rule[1:], file=file, key=key or None, value=detail["input"])


def _known_keys(path: list[str]) -> list[str]:
    model: type[BaseModel] = DeviceFile
    for name in path:
        if name not in model.model_fields:  # the entry of a list, or a key of a table
            continue
        models = _models_in(model.model_fields[name].annotation)
        if not models:
            return []
        model = models[0]
    return [field.alias or name for name, field in model.model_fields.items()]


def _models_in(annotation: object) -> list[type[BaseModel]]:
    """The models of a union, a list or a table's values, or the model itself."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]
