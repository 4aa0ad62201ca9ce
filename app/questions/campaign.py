"""What does `campaign` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.groups import ScreenOptions
from app.questions.values import Time


@dataclass(frozen=True, kw_only=True)
class CampaignQuestion(ScreenOptions, Question):
    """Run a list of measurements within a time budget.

    A campaign file lists them; the most important come first.
    """

    answered_by: ClassVar[str] = "app.answers.campaign"
    file: Annotated[
        Path,
        Field(
            "Campaign file (YAML), or the name of a shipped one: cpu, gpu-80gb.",
            Group.WORKLOAD,
            argument=True,
        ),
    ]
    budget_s: Annotated[
        float,
        Field(
            "Wall time for everything, e.g. 540s, 9m, 1h.",
            Group.RUN,
            spelled="--budget",
            reads=Time(),
        ),
    ] = 540.0
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
