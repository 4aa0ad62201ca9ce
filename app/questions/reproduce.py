"""What does `reproduce` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import Seed
from app.questions.groups import OutputOptions


@dataclass(frozen=True, kw_only=True)
class ReproduceQuestion(OutputOptions, Question):
    """Predict published numbers from their own inputs.

    The answer says how far off each prediction is, or why none can be made.
    """

    answered_by: ClassVar[str] = "app.answers.reproduction"
    names: Annotated[
        list[str] | None,
        Field(
            "Only these methods; all where none is named.",
            Group.WORKLOAD,
            placeholder="[NAME]...",
            names="methods",
            argument=True,
        ),
    ] = None
    group: Annotated[
        str,
        Field("Only rows of which this much is stated: full, partial or headline.", Group.SEARCH),
    ] = ""
    rows: Annotated[
        list[Path] | None,
        Field(
            (
                "CSV of published numbers, of drafting and serving (target, tree_or_gamma, value,"
                " ...) or of masked "
                "models (model, steps, tps, ...); repeatable. None: the numbers that the catalogue"
                " reports."
            ),
            Group.SEARCH,
        ),
    ] = None
    plot: Annotated[
        Path | None,
        Field(
            "HTML page: predicted against published numbers, and every row.",
            Group.OUTPUT,
            spelled="--html",
            place="file",
        ),
    ] = None
    seed: Seed = 0
