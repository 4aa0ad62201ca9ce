"""What does `methods` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import Seed
from app.questions.groups import OutputOptions


@dataclass(frozen=True, kw_only=True)
class MethodsQuestion(OutputOptions, Question):
    """List published methods, explain one, or add your own.

    A method is explained with its fields, citation and reported numbers.

    Example: rooftree methods new mine --like eagle-3 --out mine.toml
    """

    answered_by: ClassVar[str] = "app.answers.methods"
    name: Annotated[
        str | None,
        Field(
            (
                "Show one in full, published or a TOML file, or list a group (masked, tree-drafters);"
                " `new` writes a file to edit, `check`"
                " says whether all that a method states is priced."
            ),
            Group.WORKLOAD,
            argument=True,
        ),
    ] = None
    subject: Annotated[
        str | None,
        Field(
            "After `new`: name of the method; after `check`: its file or name.",
            Group.WORKLOAD,
            placeholder="[NEW NAME | CHECK FILE]",
            argument=True,
        ),
    ] = None
    like: Annotated[
        str,
        Field(
            "With `new`: relative whose fields stand in until they are edited.",
            Group.DRAFTING,
            names="methods",
        ),
    ] = "eagle-3"
    coverage: Annotated[
        bool,
        Field("One row for every published system: works, priced, or why not.", Group.OUTPUT),
    ] = False
    bibtex: Annotated[bool, Field("Print citations as BibTeX.", Group.OUTPUT)] = False
    out: Annotated[
        Path | None, Field("Folder for files; with `new` the file to write.", Group.OUTPUT)
    ] = None
    seed: Seed = 0
