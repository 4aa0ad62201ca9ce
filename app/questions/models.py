"""What does `models` ask?"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import AsFamily, Seed
from app.questions.groups import OutputOptions


@dataclass(frozen=True, kw_only=True)
class ModelsQuestion(OutputOptions, Question):
    """List models, show or inspect one, or cut a draft model.

    With --price: the least dollars that a token can cost.
    """

    answered_by: ClassVar[str] = "app.answers.models"
    name: Annotated[
        str | None,
        Field(
            (
                "Show one; `inspect` tells what a config, an id or a shipped name holds; `cut`"
                " makes a draft model."
            ),
            Group.WORKLOAD,
            argument=True,
        ),
    ] = None
    subject: Annotated[
        str | None,
        Field(
            "After `inspect`: a config.json, its folder, an id or a name; after `cut`: a .gguf.",
            Group.WORKLOAD,
            placeholder="[CONFIG]",
            argument=True,
        ),
    ] = None
    as_family: AsFamily = None
    layers: Annotated[
        str,
        Field("After `cut`: layers to keep: 10 (the first ones), or 0-9,28,29.", Group.RUN),
    ] = ""
    fit_head: Annotated[
        bool,
        Field(
            "After `cut` to the first layers: fit a head to them, on help topics.", Group.DRAFTING
        ),
    ] = False
    price: Annotated[
        str,
        Field(
            "Devices, comma-separated: least dollars of a decoded token at their roofs.",
            Group.HARDWARE,
        ),
    ] = ""
    context: Annotated[
        int, Field("With --price: cached tokens that are read.", Group.WORKLOAD, least=0)
    ] = 8192
    dtype: Annotated[str, Field("With --price: format of weights and cache.", Group.FORMATS)] = (
        "bf16"
    )
    seed: Seed = 0
