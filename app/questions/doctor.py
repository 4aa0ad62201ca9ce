"""What does `doctor` ask?"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import Json, Quiet


@dataclass(frozen=True, kw_only=True)
class DoctorQuestion(Question):
    """Say which verbs would run on this machine.

    Looks for devices, libraries, back ends and weights.
    """

    answered_by: ClassVar[str] = "app.answers.doctor"
    gpu: Annotated[
        bool,
        Field("Try the GPU: would measurements on it be true? About a minute.", Group.HARDWARE),
    ] = False
    device: Annotated[
        str,
        Field(
            (
                "With --gpu: torch device; of one that is not here, or of a profile such as"
                " h100-sxm, what a campaign would record on it."
            ),
            Group.HARDWARE,
        ),
    ] = "cuda"
    json: Json = False
    quiet: Quiet = False
