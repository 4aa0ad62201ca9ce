"""Which sweep does a file ask for?

A YAML mapping of lists; their product is the cells. Names, formats and numbers are checked before
anything is computed. Leaves out the cells themselves (`cells`) and what they answer (`evaluate`).
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from app.questions import fields
from app.questions.field import row_of
from app.questions.groups import PlacedOptions
from app.questions.predict import PredictQuestion
from app.questions.values import MOST
from costmodel.answers.workload import Limits
from costmodel.architectures.library import load_model
from costmodel.configuration.deployment import MOST_DEVICES
from costmodel.engine_library import load_engine
from costmodel.optimizers.drafters.named_drafters import drafter_source, named_drafter
from costmodel.optimizers.drafters.sources import Source, trace_source
from hardware_profiles.errors import InputError, UnknownNameError, joined
from hardware_profiles.loader import load_device
from hardware_profiles.outside_file import read_bounded
from hardware_profiles.places import is_place
from hardware_profiles.refusals import refusal
from hardware_profiles.units import MILLI
from simulator.scenario.arrivals import drawn_lengths
from simulator.scenario.usual_requests import OUTPUT_TOKENS, PROMPT_TOKENS
from traces.library import is_confidence, trace_file

MOST_FILE_BYTES = 1 << 20
MOST_ENTRIES = 10_000
MOST_CELLS = 5_000_000

Name = Annotated[str, Field(strict=True, min_length=1, max_length=4096)]
Devices = Annotated[int, Field(strict=True, ge=1, le=MOST_DEVICES)]
Requests = Annotated[int, Field(strict=True, ge=1, le=MOST)]
Tokens = Annotated[int, Field(strict=True, ge=0, le=MOST)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


_STEADY = ("batches", "contexts")
_OF_LOADS = ("prompt_tokens", "output_tokens", "slo_ttft", "slo_tpot", "slo_e2e")


def _law(written: Any) -> Any:
    """A number of tokens as the law that draws it alone."""
    return str(written) if type(written) is int else written


Law = Annotated[Name, BeforeValidator(_law)]


def _list_of(hint: Any, *, least: int = 1) -> FieldInfo:
    """A list of what an option of `predict` takes, with the option's meaning.

    Args:
        hint: of the option, in `app.questions.fields`.
        least: entries.
    """
    info: FieldInfo = Field(
        min_length=least, max_length=MOST_ENTRIES, description=row_of(hint).meaning
    )
    return info


class SweepFile(BaseModel):
    """The lists of a sweep, each of what the option of `predict` takes and with its default; every
    trace is one more drafter. Rates or users of `simulate`, with lengths of requests and limits, make
    loads in the place of batches and contexts.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: Annotated[tuple[Name, ...], _list_of(fields.Model)]
    devices: Annotated[tuple[Name, ...], _list_of(fields.Device)] = (PlacedOptions.device,)
    engines: Annotated[tuple[Name, ...], _list_of(fields.Engine)] = (PlacedOptions.engine,)
    tensor_parallel: Annotated[tuple[Devices, ...], _list_of(fields.TensorParallel)] = (
        PlacedOptions.tp,
    )
    drafters: Annotated[tuple[Name, ...], _list_of(fields.Drafters, least=0)] = ()
    traces: Annotated[tuple[Name, ...], _list_of(fields.Trace, least=0)] = ()
    batches: Annotated[tuple[Requests, ...], _list_of(fields.Batch)] = PredictQuestion.batch
    contexts: Annotated[tuple[Tokens, ...], _list_of(fields.Context)] = PredictQuestion.context
    rates: Annotated[tuple[Rate, ...], _list_of(fields.Rate, least=0)] = ()
    users: Annotated[tuple[Requests, ...], _list_of(fields.Users, least=0)] = ()
    prompt_tokens: Annotated[tuple[Law, ...], _list_of(fields.PromptTokens)] = (str(PROMPT_TOKENS),)
    output_tokens: Annotated[tuple[Law, ...], _list_of(fields.OutputTokens)] = (str(OUTPUT_TOKENS),)
    slo_ttft: Annotated[
        Rate | None, Field(description="Longest time to the first token of a good request, ms.")
    ] = None
    slo_tpot: Annotated[
        Rate | None, Field(description="Longest time per output token of a good request, ms.")
    ] = None
    slo_e2e: Annotated[
        Rate | None, Field(description="Longest time of the whole of a good request, ms.")
    ] = None

    @property
    def is_loaded(self) -> bool:
        """Whether cells are loads of requests, in the place of batches and contexts."""
        return bool(self.rates or self.users)

    @property
    def points(self) -> dict[str, Sequence[Any]]:
        """What cells of one deployment and drafter differ in, by the key of a row."""
        if not self.is_loaded:
            return {"batch": self.batches, "context": self.contexts}
        load = {"rate_per_s": self.rates} if self.rates else {"users": self.users}
        return {"prompt_tokens": self.prompt_tokens, "output_tokens": self.output_tokens, **load}

    @property
    def limits(self) -> Limits:
        """On the times of requests."""
        ttft, tpot, e2e = (
            None if value is None else value * MILLI
            for value in (self.slo_ttft, self.slo_tpot, self.slo_e2e)
        )
        return Limits(ttft_s=ttft, tpot_s=tpot, e2e_s=e2e)

    @model_validator(mode="after")
    def _one_workload(self) -> "SweepFile":
        if self.rates and self.users:
            raise ValueError("leave out one of rates and users")
        # a task that travels states every list, the usual ones too
        named = [
            name
            for name, field in type(self).model_fields.items()
            if getattr(self, name) != field.default
        ]
        for name in named:
            if self.is_loaded and name in _STEADY:
                rule = "follow from a load; leave them out beside rates or users"
                raise ValueError(f"{name} {rule}")
            if not self.is_loaded and name in _OF_LOADS:
                raise ValueError(f"{name} goes with rates or users")
        return self

    @field_validator("*")
    @classmethod
    def _once(cls, entries: Any) -> Any:
        if not isinstance(entries, tuple):
            return entries
        earlier = set()
        for entry in entries:
            if entry in earlier:
                raise ValueError(f"must hold each entry once, and holds {entry!r} twice")
            earlier.add(entry)
        return entries


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A sweep that can be begun.

    Args:
        lists: as written.
        folder: paths in the lists are taken from here, where such a file is there.
    """

    lists: SweepFile
    folder: Path

    def place(self, text: str) -> str:
        """A name, or the path of the file beside the sweep file that it names."""
        beside = self.folder / text
        return str(beside) if is_place(beside) else text

    def drafter(self, text: str) -> str:
        """`METHOD[:SOURCE]` with the paths of the method and of the source, where they are files."""
        method, separator, source = text.partition(":")
        return f"{self.place(method.strip())}{separator}{self.place(source) if source else ''}"

    def digest(self, seed: int) -> str:
        """What tells this sweep from any other: its lists, the seed, the release, and the files
        that it names.
        """
        lists = self.lists
        named = [*lists.models, *lists.devices, *lists.engines, *lists.traces]
        named += [part for text in lists.drafters for part in text.partition(":")[::2]]
        files = {text: _file_digest(Path(self.place(text))) for text in named if text}
        identity = {
            "lists": lists.model_dump(mode="json"),
            "seed": seed,
            "version": version("rooftree"),
            "files": files,
        }
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


class SweepTask(BaseModel):
    """What a process that computes shards of a sweep is told, as JSON.

    Attributes:
        lists: of the sweep.
        folder: of the sweep.
        seed: of all draws.
        parts: folder in which the process writes; None where its tables come back.
        digest: of the sweep, by which a process elsewhere sees that it computes the same; empty
            where it runs here.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    lists: SweepFile
    folder: Path
    seed: int
    parts: Path | None = None
    digest: str = ""

    @property
    def sweep(self) -> Sweep:
        """The sweep itself."""
        return Sweep(lists=self.lists, folder=self.folder)


def read_sweep(path: str | Path) -> Sweep:
    """The sweep that a file asks for.

    Args:
        path: of a YAML (or JSON) file.

    Raises:
        InputError: absent, too large, no regular file, no YAML, an unknown key, a value out of
            range, a name that nothing carries, or more cells than fit a file.
    """
    try:
        lists = SweepFile.model_validate(_read(Path(path)))
    except ValidationError as error:
        raise refusal(error, SweepFile, path) from None
    sweep = Sweep(lists=lists, folder=Path(path).resolve().parent)
    cells = len(lists.models) * len(lists.devices) * len(lists.engines) * len(lists.tensor_parallel)
    cells *= max(len(lists.drafters) + len(lists.traces), 1)
    cells *= prod(map(len, lists.points.values()))
    if cells > MOST_CELLS:
        raise InputError(f"must make at most {MOST_CELLS} cells", file=path, value=cells)
    _check_names(sweep, path)
    return sweep


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = yaml.safe_load(read_bounded(path, MOST_FILE_BYTES))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise InputError(f"must be YAML ({str(error).splitlines()[0]})", file=path) from None
    if not isinstance(content, dict):
        raise InputError(
            "must hold lists such as models and devices", file=path, value=type(content).__name__
        )
    return {str(key): value for key, value in content.items()}


def _check_names(sweep: Sweep, path: str | Path) -> None:
    """Refuse names that nothing carries, all of them at once; what only does not go together is a
    cell's reason.
    """

    def drafter(text: str) -> None:
        method, separator, _ = sweep.drafter(text).partition(":")
        named_drafter(method)
        if separator:
            drafter_source(sweep.drafter(text))

    checks: dict[str, Callable[[str], Any]] = {
        "models": lambda text: load_model(sweep.place(text)),
        "devices": lambda text: load_device(sweep.place(text)),
        "engines": lambda text: load_engine(sweep.place(text)),
        "drafters": drafter,
        "traces": lambda text: recorded_source(sweep.place(text)),
        "prompt_tokens": lambda text: drawn_lengths(text, "1", 1, np.random.default_rng(0)),
        "output_tokens": lambda text: drawn_lengths("1", text, 1, np.random.default_rng(0)),
    }
    wrong = []
    for key, check in checks.items():
        for index, text in enumerate(getattr(sweep.lists, key)):
            try:
                check(text)
            except InputError as error:
                wrong.append(_at(error, path, f"{key}.{index}"))
    if wrong:
        raise joined(wrong)


def recorded_source(name: str) -> Source:
    """The drafter that a trace names itself.

    Raises:
        InputError: no trace, or one that names no method.
    """
    file = trace_file(name)
    if is_confidence(file):
        rule = (
            "a confidence trace answers for methods of masked blocks, which `rooftree predict`"
            " costs"
        )
        raise InputError(rule, file=file)
    return trace_source(file)


def _at(error: InputError, path: str | Path, key: str) -> InputError:
    """An error with the place of the sweep file that it comes from."""
    if isinstance(error, UnknownNameError):
        return UnknownNameError(error.kind, error.name, error.known, file=path, key=key)
    return InputError(str(error), file=path, key=key)


def _file_digest(path: Path) -> str | None:
    try:
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, ValueError):
        return None
