"""What does `calibrate` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import Device, Overrides, Seed
from app.questions.groups import ScreenOptions
from app.questions.values import Time


@dataclass(frozen=True, kw_only=True)
class CalibrateQuestion(ScreenOptions, Question):
    """Fit a device's constants to measured kernels.

    A quarter of the rows (--share) is fitted and the others are scored; --score-only scores the
    same rows without a fit.

    Without tables it measures: this machine by --here cpu or --here cuda, an engine by --server or
    --engine llama.cpp.
    """

    answered_by: ClassVar[str] = "app.answers.calibration.calibrate"
    begins: ClassVar[tuple[str, ...]] = (
        "kernels",
        "device",
        "here",
        "base",
        "server",
        "budget_s",
        "share",
        "out",
        "resume",
    )
    kernels: Annotated[
        list[Path] | None,
        Field("Table of kernel timings, Parquet or CSV; repeat for several.", Group.RUN),
    ] = None
    device: Device = "h100-sxm"
    more: Annotated[list[Path] | None, Field("Further tables.", Group.WORKLOAD, argument=True)] = (
        None
    )
    score_only: Annotated[bool, Field("Score the profile as it is; fit nothing.", Group.RUN)] = (
        False
    )
    out: Annotated[Path | None, Field("Profile to write, a .toml file.", Group.OUTPUT)] = None
    dtype: Annotated[str, Field("Number format whose rows are used.", Group.FORMATS)] = "bf16"
    share: Annotated[float, Field("Share of the rows to fit to, or that was.", Group.RUN)] = 0.25
    model: Annotated[
        str | None,
        Field("Shipped model behind tables that name layers without shapes.", Group.WORKLOAD),
    ] = None
    here: Annotated[
        str | None,
        Field("Measure this machine instead of reading tables: cpu, cuda or cuda:1.", Group.RUN),
    ] = None
    threads: Annotated[int, Field("With --here: CPU threads.", Group.HARDWARE, least=1)] = 1
    budget_s: Annotated[
        float,
        Field(
            "With --here: wall time, e.g. 10m; 60s or more.",
            Group.RUN,
            spelled="--budget",
            reads=Time(),
        ),
    ] = 600.0
    results: Annotated[
        Path, Field("With --here: folder for the rows and the profile.", Group.HARDWARE)
    ] = Path("rooftree-out/calibrate")
    resume: Annotated[bool, Field("With --here: go on in a folder that holds rows.", Group.RUN)] = (
        False
    )
    base: Annotated[
        str | None,
        Field(
            "With --here: profile to start from; default: the device's own, where one ships.",
            Group.RUN,
        ),
    ] = None
    server: Annotated[
        str | None,
        Field(
            "Measure the engine that answers at this address, such as http://HOST:8000.",
            Group.HARDWARE,
        ),
    ] = None
    engine: Annotated[
        str | None,
        Field(
            "Measure llama.cpp, started here with --model FILE.gguf for every draft length.",
            Group.HARDWARE,
        ),
    ] = None
    overrides: Overrides = None
    seed: Seed = 0
