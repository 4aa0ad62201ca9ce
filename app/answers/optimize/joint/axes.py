"""What does a joint search vary of a deployment, and what is the same for all of its designs?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.answers.cells import names_of
from app.questions.resolve.chosen_configuration import configuration_of
from costmodel.configuration import DecodingConfiguration
from hardware_profiles.errors import InputError


@dataclass(frozen=True, kw_only=True, slots=True)
class DeploymentAxes:
    """Devices and formats that compete.

    Attributes:
        base: the model, the engine, the drafter's own options, on the first device.
        device_names: kinds of devices.
        weight_formats: None is the checkpoint's own.
        cache_formats: None is the usual one.
    """

    base: DecodingConfiguration
    device_names: Sequence[str]
    weight_formats: Sequence[str | None]
    cache_formats: Sequence[str | None]


def deployment_axes(options: Mapping[str, Any]) -> DeploymentAxes:
    """Devices and formats of options that list them with commas between.

    Args:
        options: of a verb, by parameter.

    Raises:
        InputError: several models or engines, or a value out of range.
    """
    for name in ("model", "engine"):
        if len(names_of(options[name], f"--{name}")) > 1:
            raise InputError(
                "one at a time with --search full", key=f"--{name}", value=options[name]
            )
    devices = names_of(options["device"], "--device")
    first = {**options, "device": devices[0], "dtype": None, "kv_dtype": None}
    return DeploymentAxes(
        base=configuration_of(None, first),
        device_names=devices,
        weight_formats=_formats(options["dtype"], "--dtype"),
        cache_formats=_formats(options["kv_dtype"], "--kv-dtype"),
    )


def _formats(text: str | None, option: str) -> list[str | None]:
    return [None] if text is None else [*names_of(text, option)]
