"""How is a file refused whose keys or values a model does not take?

One sentence for the first thing that is wrong, with its place; an unknown key is answered with the
nearest ones of the place where it stands. Leaves out reading files.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from hardware_profiles.errors import InputError, UnknownNameError


def refusal(
    error: ValidationError, model: type[BaseModel], file: str | Path | None = None
) -> InputError:
    """What to raise for a file that a model refuses.

    Args:
        error: of the model.
        model: the file's.
        file: the file, where there is one.

    Example:
        >>> class Limits(BaseModel, extra="forbid"):
        ...     ttft_s: float = 1.0
        >>> class Scenario(BaseModel, extra="forbid"):
        ...     slo: Limits = Limits()
        >>> try:
        ...     Scenario.model_validate({"slo": {"tttf_s": 2.0}})
        ... except ValidationError as error:
        ...     print(refusal(error, Scenario, "scenario.yaml"))
        scenario.yaml: slo.tttf_s: unknown key 'tttf_s'; nearest: ttft_s
    """
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        *before, name = first["loc"]
        keys = [key for model_at in _models_at(model, before) for key in _keys(model_at)]
        return UnknownNameError("key", str(name), keys, file=file, key=place)
    value = first.get("input")
    shown = value if isinstance(value, str | int | float) else None
    return InputError(
        first["msg"].removeprefix("Value error, "), file=file, key=place or None, value=shown
    )


def _keys(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _models_at(model: type[BaseModel], place: Sequence[str | int]) -> list[type[BaseModel]]:
    """The models that may stand at a place; where a kind is named on the way, all of its kin."""
    models = [model]
    for part in place:
        fields = [
            field
            for model_class in models
            for name, field in model_class.model_fields.items()
            if part in (name, field.alias)
        ]
        models = [inner for field in fields for inner in _models_in(field.annotation)] or models
    return models


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)
