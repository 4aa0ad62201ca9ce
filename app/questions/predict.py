"""What does `predict` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import (
    Batch,
    Config,
    Context,
    ContextGroup,
    Data,
    DraftShapes,
    Expert,
    Fidelity,
    Launch,
    MethodOrTraces,
    Model,
    Pipeline,
    Seed,
    StatedDraftTokens,
    StopRule,
    Trace,
    TreeFile,
)
from app.questions.groups import (
    AcceptanceOptions,
    DraftingOptions,
    LimitOptions,
    OutputOptions,
    RefiningOptions,
    StoredOptions,
)


@dataclass(frozen=True, kw_only=True)
class PredictQuestion(
    OutputOptions,
    LimitOptions,
    RefiningOptions,
    AcceptanceOptions,
    DraftingOptions,
    StoredOptions,
    Question,
):
    """Predict the speed of configurations that you name.

    Every combination of batch, context and draft length is priced; K=0 is plain decoding.
    """

    answered_by: ClassVar[str] = "app.answers.predict"
    begins: ClassVar[tuple[str, ...]] = (
        "model",
        "device",
        "engine",
        "dtype",
        "tp",
        "batch",
        "context",
        "drafter",
        "trace",
        "shape",
        "explain",
        "json",
    )
    model: Model = ""
    table: Annotated[
        Path | None,
        Field(
            "Parquet, CSV or JSON Lines of serving runs: answer TTFT and TPOT of every row.",
            Group.WORKLOAD,
        ),
    ] = None
    launch: Launch = ""
    config: Config = None
    method: MethodOrTraces = ""
    trace: Trace = None
    tree: TreeFile = None
    shape: DraftShapes = None
    stop: StopRule = ""
    batch: Batch = (1, 8, 64)
    context: Context = (1024,)
    draft_tokens: StatedDraftTokens = (0, 3, 5)
    include_prefill: Annotated[
        bool,
        Field(
            (
                "Speedup of throughput too, prompts included, for requests of the trace's mean"
                " lengths."
            ),
            Group.SEARCH,
        ),
    ] = False
    prompt: Annotated[
        float | None,
        Field(
            "Mean prompt tokens: speedup of throughput too, beside that of a step.",
            Group.WORKLOAD,
            spelled="--prompt-tokens",
            also="--prompt",
            least=1.0,
        ),
    ] = None
    output: Annotated[
        float | None,
        Field(
            "Mean output tokens; goes with --prompt-tokens.",
            Group.WORKLOAD,
            spelled="--output-tokens",
            also="--output",
            least=1.0,
        ),
    ] = None
    explain: Annotated[
        bool,
        Field(
            "Say where each step's time goes and what would move it; a page with --out.",
            Group.OUTPUT,
        ),
    ] = False
    pp: Pipeline = 1
    ep: Expert = 1
    dp: Data = 1
    cp: ContextGroup = 1
    fidelity: Fidelity = "calibrated"
    transform: Annotated[
        str,
        Field("Compression and skipped layers by name, comma-separated, in order.", Group.DRAFTING),
    ] = ""
    seed: Seed = 0
