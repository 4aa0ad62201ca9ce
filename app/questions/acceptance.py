"""What do the `acceptance` verbs ask?"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import Drafters, Seed
from app.questions.groups import OutputOptions

_DataSet = Annotated[str | None, Field("Part of a data set's name, as mt-bench.", Group.WORKLOAD)]
_Temperature = Annotated[float | None, Field("Sampling temperature.", Group.WORKLOAD)]


@dataclass(frozen=True, kw_only=True)
class PublishedFilters:
    """What narrows published figures down."""

    method: Annotated[str | None, Field("Method slug (see `methods`).", Group.DRAFTING)] = None
    model: Annotated[
        str | None, Field("Target: shipped name, hub id or published name.", Group.WORKLOAD)
    ] = None
    data_set: _DataSet = None
    temperature: _Temperature = None


@dataclass(frozen=True, kw_only=True)
class AcceptanceListQuestion(OutputOptions, PublishedFilters, Question):
    """List published acceptance figures.

    Without a filter: one line for each method and target.
    """

    answered_by: ClassVar[str] = "app.answers.acceptance.listed"
    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class AcceptanceShowQuestion(OutputOptions, Question):
    """Show the published figure that suits a method and target best.

    It says where the figure stands, to be quoted.
    """

    answered_by: ClassVar[str] = "app.answers.acceptance.quoted"
    method: Annotated[str, Field("Method slug, as eagle-3.", Group.WORKLOAD, argument=True)]
    model: Annotated[str, Field("Target, as llama-3.1-8b.", Group.WORKLOAD, argument=True)]
    data_set: _DataSet = None
    temperature: _Temperature = None
    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class AcceptanceCompareQuestion(OutputOptions, PublishedFilters, Question):
    """Compare published figures with each other or with your own.

    Yours are rates, or a trace.
    """

    answered_by: ClassVar[str] = "app.answers.acceptance.compared"
    drafter: Drafters = None
    seed: Seed = 0
