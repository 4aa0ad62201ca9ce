"""What does `kernels` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import Out
from app.questions.groups import ScreenOptions
from app.questions.values import Time, WholeNumbers


@dataclass(frozen=True, kw_only=True)
class KernelsQuestion(ScreenOptions, Question):
    """Time kernels on a torch device.

    Attention is first checked against an exact answer.
    """

    answered_by: ClassVar[str] = "app.answers.kernels"
    begins: ClassVar[tuple[str, ...]] = (
        "operation",
        "model",
        "device",
        "dtype",
        "batch",
        "context",
        "plot",
        "out",
        "profile",
        "json",
    )
    operation: Annotated[
        str,
        Field(
            "attention, prefill, gemm, moe, copy, launch or steps.", Group.WORKLOAD, argument=True
        ),
    ] = "attention"
    model: Annotated[str, Field("Shipped model whose shapes to take.", Group.WORKLOAD)] = (
        "smollm2-135m"
    )
    device: Annotated[str, Field("Torch device.", Group.HARDWARE)] = "cpu"
    dtype: Annotated[str, Field("fp32, bf16 or fp16.", Group.FORMATS)] = "fp32"
    threads: Annotated[int, Field("CPU threads.", Group.HARDWARE, least=1)] = 1
    batch: Annotated[
        tuple[int, ...],
        Field("Requests, comma-separated.", Group.WORKLOAD, reads=WholeNumbers(least=1, most=4096)),
    ] = (1,)
    query_tokens: Annotated[
        tuple[int, ...],
        Field(
            "New tokens per request, or chunk lengths, comma-separated.",
            Group.RUN,
            reads=WholeNumbers(least=1, most=1 << 20),
        ),
    ] = (1, 8, 64)
    context: Annotated[
        tuple[int, ...],
        Field(
            "Cached tokens per request, comma-separated; 0 for prefill alone.",
            Group.WORKLOAD,
            reads=WholeNumbers(least=0, most=1 << 24),
        ),
    ] = (512, 2048)
    rows: Annotated[
        tuple[int, ...],
        Field(
            "Tokens of a product, kernels of a chain, or bytes of a copy.",
            Group.SEARCH,
            reads=WholeNumbers(least=1),
        ),
    ] = (1, 8, 64)
    mask: Annotated[str, Field("causal or tree.", Group.RUN)] = "causal"
    implementation: Annotated[
        list[str] | None,
        Field("Repeat for several; default: all that run here.", Group.RUN),
    ] = None
    graph: Annotated[
        bool,
        Field(
            "Replay captured graphs, or launch one by one.", Group.RUN, spelled="--graph/--eager"
        ),
    ] = True
    repeats: Annotated[int, Field("Most repeats.", Group.RUN, least=3)] = 15
    budget_s: Annotated[
        float,
        Field("Wall time, e.g. 60s or 5m.", Group.RUN, spelled="--budget", reads=Time()),
    ] = 120.0
    table: Annotated[
        Path | None,
        Field("Measure nothing: take the rows of this file or results folder.", Group.WORKLOAD),
    ] = None
    plot: Annotated[
        Path | None, Field("Draw the rows as an HTML page.", Group.OUTPUT, place="file")
    ] = None
    profile: Annotated[
        str | None,
        Field("Device profile whose cost model is drawn beside.", Group.HARDWARE),
    ] = None
    out: Out = None
