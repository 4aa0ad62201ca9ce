"""What does `methods` ask?"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import Seed
from app.questions.groups import OutputOptions


@dataclass(frozen=True, kw_only=True)
class MethodsQuestion(OutputOptions, Question):
    """List published methods, or explain one.

    A method is explained with its fields, citation and reported numbers.
    """

    answered_by: ClassVar[str] = "app.answers.methods"
    name: Annotated[str | None, Field("Show one in full.", Group.WORKLOAD, argument=True)] = None
    coverage: Annotated[
        bool,
        Field("One row for every published system: works, priced, or why not.", Group.OUTPUT),
    ] = False
    bibtex: Annotated[bool, Field("Print citations as BibTeX.", Group.OUTPUT)] = False
    seed: Seed = 0
