"""What does `devices` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import Overrides, Seed
from app.questions.groups import OutputOptions


@dataclass(frozen=True, kw_only=True)
class DevicesQuestion(OutputOptions, Question):
    """List device profiles, show one, or write a file for a new one.

    A profile is shown with the source of every number.
    """

    answered_by: ClassVar[str] = "app.answers.devices"
    name: Annotated[
        str | None,
        Field(
            "Show one in full, shipped or a TOML file; `new` writes a file to fill in.",
            Group.WORKLOAD,
            argument=True,
        ),
    ] = None
    new: Annotated[
        str | None,
        Field(
            "After `new`: name of the device.",
            Group.WORKLOAD,
            placeholder="[NEW NAME]",
            argument=True,
        ),
    ] = None
    like: Annotated[
        str,
        Field(
            "With `new`: relative whose numbers stand in until they are replaced.", Group.HARDWARE
        ),
    ] = "h100-sxm"
    overrides: Overrides = None
    out: Annotated[
        Path | None, Field("Folder for files; with `new` the file to write.", Group.OUTPUT)
    ] = None
    seed: Seed = 0
