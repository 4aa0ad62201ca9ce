"""What does `load` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import RequestKeys, Seed, Timeout
from app.questions.groups import LiveServerOptions, RequestOptions, ScreenOptions
from app.questions.values import Time


@dataclass(frozen=True, kw_only=True)
class LoadQuestion(ScreenOptions, RequestOptions, LiveServerOptions, Question):
    """Send a load to a live server and measure TTFT and TPOT.

    The server is vLLM, SGLang, TensorRT-LLM or llama.cpp; its throughput is measured too.

    The folder gets requests.parquet, which `simulate --requests` plays, load.json, and, where the
    engine has counters, those before and after and acceptance.parquet, which `--trace` takes.

    Example: rooftree load http://127.0.0.1:8080 --rate 2 --count 200 --prompt-tokens 256
    --output-tokens 128 --out run
    """

    answered_by: ClassVar[str] = "app.answers.live.load"
    begins: ClassVar[tuple[str, ...]] = (
        "url",
        "model",
        "requests",
        "rate",
        "count",
        "prompt_tokens",
        "output_tokens",
        "out",
        "duration_s",
        "resume",
    )
    out: Annotated[
        Path,
        Field("Folder for the answers; unfinished work is kept there too.", Group.OUTPUT),
    ]
    duration_s: Annotated[
        float | None,
        Field(
            "With --rate in place of --count: a time such as 60s or 5m.",
            Group.WORKLOAD,
            spelled="--duration",
            reads=Time(),
        ),
    ] = None
    prompts: Annotated[
        Path | None,
        Field(
            (
                "TOML of a title and [[prompts]], each with id, kind and text: sent as they are,"
                " or, with lengths, "
                "the text that passages are taken from. Default: passages of the shipped set."
            ),
            Group.WORKLOAD,
        ),
    ] = None
    assigned: Annotated[
        list[str] | None,
        Field(
            "Any key of a scenario's requests: requests.think_s=2 (see `simulate`). Repeatable.",
            Group.HARDWARE,
            spelled="--set",
        ),
    ] = None
    option: RequestKeys = None
    temperature: Annotated[float, Field("0 is greedy.", Group.WORKLOAD, least=0.0)] = 0.0
    stop_at_eos: Annotated[
        bool,
        Field("Let the model end an answer before all its tokens are generated.", Group.WORKLOAD),
    ] = False
    most_at_once: Annotated[int, Field("Requests under way at a time.", Group.RUN, least=1)] = 1000
    timeout: Timeout = 300.0
    resume: Annotated[bool, Field("Send only what is missing in the folder.", Group.RUN)] = False
    seed: Seed = 0
