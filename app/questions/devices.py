"""What does `devices` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import Overrides, Seed
from app.questions.groups import OutputOptions
from app.questions.values import Time


@dataclass(frozen=True, kw_only=True)
class DevicesQuestion(OutputOptions, Question):
    """List device profiles, show one, or write a file for a new one.

    A profile is shown with the source of every number. `devices new NAME --measure` times this
    machine for a minute: copies, matrix products and attention; the file then holds what was timed.
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
        str | None,
        Field(
            (
                "With `new`: relative whose numbers stand in until they are replaced [h100-sxm; with"
                " --measure the nearest]."
            ),
            Group.HARDWARE,
            names="devices",
        ),
    ] = None
    measure: Annotated[
        bool,
        Field("With `new`: time this machine, and write a profile of its own.", Group.RUN),
    ] = False
    on: Annotated[
        str, Field("With --measure: torch device: cpu, cuda, cuda:1 or mps.", Group.RUN)
    ] = "cpu"
    threads: Annotated[
        int | None,
        Field("With --measure: CPU threads; default: all cores.", Group.HARDWARE, least=1),
    ] = None
    budget_s: Annotated[
        float,
        Field(
            "With --measure: wall time, 20s or more.", Group.RUN, spelled="--budget", reads=Time()
        ),
    ] = 60.0
    overrides: Overrides = None
    out: Annotated[
        Path | None, Field("Folder for files; with `new` the file to write.", Group.OUTPUT)
    ] = None
    seed: Seed = 0
