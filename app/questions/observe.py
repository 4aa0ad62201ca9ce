"""What does `observe` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import Seed
from app.questions.groups import LiveServerOptions, ScreenOptions
from app.questions.values import Time


@dataclass(frozen=True, kw_only=True)
class ObserveQuestion(ScreenOptions, LiveServerOptions, Question):
    """Watch a live server by its own counters.

    The server is vLLM, SGLang, TensorRT-LLM or llama.cpp; no request is sent.

    Example: rooftree observe http://127.0.0.1:8000 --for 60s --out acceptance.parquet
    """

    answered_by: ClassVar[str] = "app.answers.live.observe"
    for_s: Annotated[
        float,
        Field(
            "How long, such as 60s, 5m or 1h; Ctrl-C ends it earlier.",
            Group.RUN,
            spelled="--for",
            reads=Time(),
        ),
    ] = 60.0
    every_s: Annotated[
        float,
        Field("Between two scrapes of the counters.", Group.RUN, spelled="--every", reads=Time()),
    ] = 5.0
    out: Annotated[
        Path | None,
        Field("Parquet file for the acceptance, a trace of level 0.", Group.OUTPUT),
    ] = None
    seed: Seed = 0
