"""What does `campaign` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.groups import ScreenOptions
from app.questions.values import Time
from real_runs.campaigns.shipped import campaign_names


@dataclass(frozen=True, kw_only=True)
class CampaignQuestion(ScreenOptions, Question):
    """Run a list of measurements within a time budget.

    A campaign file lists them; the most important come first.
    """

    answered_by: ClassVar[str] = "app.answers.campaign"
    file: Annotated[
        Path,
        Field(
            f"Campaign file (YAML), or the name of a shipped one: {', '.join(campaign_names())}.",
            Group.WORKLOAD,
            argument=True,
        ),
    ]
    budget_s: Annotated[
        float | None,
        Field(
            "Wall time for everything, e.g. 540s, 9m, 1h; default: as the file states.",
            Group.RUN,
            spelled="--budget",
            reads=Time(),
        ),
    ] = None
    out: Annotated[Path, Field("Folder for the results.", Group.OUTPUT)] = Path(
        "rooftree-out/campaign"
    )
    resume: Annotated[bool, Field("Go on in a folder that holds results.", Group.RUN)] = False
    isolate: Annotated[
        bool,
        Field("Run each job in a process of its own.", Group.RUN, spelled="--isolate/--no-isolate"),
    ] = True
    model: Annotated[
        Path | None,
        Field(
            "A .gguf file or Hugging Face folder for recordings and decoding that name none.",
            Group.WORKLOAD,
        ),
    ] = None
    fits: Annotated[
        Path | None,
        Field(
            "Folder of fitted drafters: those there are used, and new ones kept there.",
            Group.WORKLOAD,
        ),
    ] = None
    device: Annotated[str | None, Field("Torch device in place of the file's.", Group.HARDWARE)] = (
        None
    )
    dry_run: Annotated[
        bool,
        Field("Say what it would take, time and sizes, and run nothing.", Group.RUN),
    ] = False
