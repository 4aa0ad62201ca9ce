"""What does `capacity` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import (
    Data,
    Disaggregate,
    DraftShapes,
    Expert,
    Model,
    Pipeline,
    RequestFile,
    Seed,
    ThinkTime,
    Trace,
    TreeFile,
    Users,
)
from app.questions.groups import (
    AcceptanceOptions,
    DraftingOptions,
    FormatOptions,
    LimitOptions,
    OutputOptions,
)
from app.questions.values import MOST_DRAFT_TOKENS, MeanTokens, MethodName, OneOf, WholeNumbers

MOST_DEVICES = 1024  # of one replica, and of a kind


@dataclass(frozen=True, kw_only=True)
class CapacityQuestion(
    OutputOptions, LimitOptions, AcceptanceOptions, DraftingOptions, FormatOptions, Question
):
    """Plan how many devices serve requests per second, or users.

    Memory, latency limits, power and price decide.
    """

    answered_by: ClassVar[str] = "app.answers.capacity"
    begins: ClassVar[tuple[str, ...]] = (
        "model",
        "device",
        "dtype",
        "tp",
        "rate",
        "users",
        "prompt",
        "output",
        "slo_ttft",
        "slo_tpot",
        "drafter",
        "most_devices",
        "json",
    )
    model: Model
    rate: Annotated[float | None, Field("Requests per second.", Group.WORKLOAD)] = None
    users: Users = None
    think_time: ThinkTime = None
    prompt: Annotated[
        float | None,
        Field(
            "Mean prompt length, tokens.",
            Group.WORKLOAD,
            spelled="--prompt-tokens",
            also="--prompt",
            reads=MeanTokens(),
        ),
    ] = None
    output: Annotated[
        float | None,
        Field(
            "Mean output length, tokens.",
            Group.WORKLOAD,
            spelled="--output-tokens",
            also="--output",
            reads=MeanTokens(),
        ),
    ] = None
    requests: RequestFile = None
    profile: Annotated[
        Path | None,
        Field(
            "CSV file with the columns hour,rate: plan at the peak hour, and show every hour.",
            Group.WORKLOAD,
        ),
    ] = None
    device: Annotated[
        list[str] | None,
        Field(
            "Device name or file; several by commas, or repeated. Default: h100-sxm.",
            Group.HARDWARE,
            names="devices",
        ),
    ] = None
    tp: Annotated[
        tuple[int, ...],
        Field(
            "Devices that share every layer, comma-separated.",
            Group.HARDWARE,
            reads=WholeNumbers(least=1, most=MOST_DEVICES),
        ),
    ] = (1,)
    pp: Pipeline = 1
    ep: Expert = 1
    dp: Data = 1
    disaggregate: Disaggregate = False
    method: Annotated[
        str,
        Field("Method to compare with plain decoding.", Group.DRAFTING, reads=MethodName()),
    ] = ""
    trace: Trace = None
    tree: TreeFile = None
    draft_tokens: Annotated[
        tuple[int, ...] | None,
        Field(
            "Draft tokens K to choose among, comma-separated; 0: none. Default: those that `optimize` compares.",
            Group.DRAFTING,
            reads=WholeNumbers(least=0, most=MOST_DRAFT_TOKENS),
        ),
    ] = None
    shape: DraftShapes = None
    search: Annotated[
        str,
        Field(
            (
                "named: the --tp and method that are named; full: layouts, formats, drafters, batch"
                " caps and token "
                "budgets are searched for the cheapest, as `optimize --search full` does."
            ),
            Group.SEARCH,
            reads=OneOf(("named", "full")),
        ),
    ] = "named"
    most_devices: Annotated[
        int,
        Field(
            "With --search full: most devices of a kind.",
            Group.HARDWARE,
            spelled="--devices",
            least=1,
            most=MOST_DEVICES,
        ),
    ] = MOST_DEVICES
    utilisation: Annotated[
        float,
        Field("Most that a replica is sent, as a share of what it could finish.", Group.LIMITS),
    ] = 0.8
    seed: Seed = 0
