"""What does `optimize` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import (
    Against,
    Batch,
    Context,
    Data,
    DraftShapes,
    DraftTokens,
    Expert,
    Fidelity,
    ModelOrTraces,
    Pipeline,
    Seed,
    StopRule,
)
from app.questions.groups import (
    AcceptanceOptions,
    DraftingOptions,
    JointOptions,
    LimitOptions,
    OutputOptions,
    RefiningOptions,
    StoredOptions,
)
from app.questions.values import MOST_DRAFT_TOKENS, MethodName, WholeNumbers

DEFAULT_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
DEFAULT_TREES = (4, 8, 16, 32, 64)
DEFAULT_FLOOR = 0.95


@dataclass(frozen=True, kw_only=True)
class OptimizeQuestion(
    OutputOptions,
    LimitOptions,
    JointOptions,
    RefiningOptions,
    AcceptanceOptions,
    DraftingOptions,
    StoredOptions,
    Question,
):
    """Find the best drafter, draft length or tree for each batch.

    The winner is written in the form that engines load.
    """

    answered_by: ClassVar[str] = "app.answers.optimize.answer"
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
        "slo_tpot",
        "out",
        "json",
    )
    after: Annotated[
        Path | None,
        Field(
            "The second scrape of --metrics.",
            Group.WORKLOAD,
            placeholder="[AFTER]",
            argument=True,
        ),
    ] = None
    model: ModelOrTraces = ""
    trace: Annotated[
        list[Path] | None,
        Field("Acceptance trace; repeat to compare methods.", Group.DRAFTING),
    ] = None
    metrics: Annotated[
        list[Path] | None,
        Field(
            (
                "Text of an engine's /metrics (vLLM, SGLang, TensorRT-LLM, llama.cpp), scraped"
                " twice, in either order, or once for all since it started; a log of vLLM or SGLang; or its"
                " responses where they report their speculation, by adapter where they name it:"
                " should the draft length that runs be changed, and what should be measured next?"
            ),
            Group.WORKLOAD,
            placeholder="BEFORE [AFTER]",
        ),
    ] = None
    method: Annotated[
        str,
        Field(
            "Method of stated acceptance, of traces that name none or have such a drafter.",
            Group.DRAFTING,
            reads=MethodName(),
            names="methods",
        ),
    ] = ""
    batch: Batch = DEFAULT_BATCHES
    context: Context = (1024,)
    by_context: Annotated[
        bool,
        Field(
            "Replay recordings near each --context alone, where acceptance changes with it.",
            Group.DRAFTING,
        ),
    ] = False
    by_kind: Annotated[
        bool,
        Field(
            "Say what a draft length for every kind of recorded prompts gains over one for all.",
            Group.DRAFTING,
        ),
    ] = False
    against: Against = ""
    shape: DraftShapes = None
    draft_tokens: DraftTokens = None
    tree_nodes: Annotated[
        tuple[int, ...],
        Field(
            "Draft tokens of trees, static and dynamic, root excluded; 0 for none.",
            Group.DRAFTING,
            reads=WholeNumbers(least=0, most=MOST_DRAFT_TOKENS),
        ),
    ] = DEFAULT_TREES
    stop: StopRule = ""
    quality_floor: Annotated[
        float | None,
        Field(
            (
                "Least share of tokens that masked blocks share with one token a pass, for a"
                " --method that refines "
                f"them; default {DEFAULT_FLOOR}."
            ),
            Group.LIMITS,
        ),
    ] = None
    pp: Pipeline = 1
    ep: Expert = 1
    dp: Data = 1
    fidelity: Fidelity = "calibrated"
    out: Annotated[
        Path | None,
        Field("Folder for engine files and the answer.", Group.OUTPUT, place="folder"),
    ] = Path("rooftree-out")
    engines: Annotated[
        str,
        Field(
            (
                "Engines to write files for, by commas, or all; default: --engine, or all where"
                " nothing is written for that one."
            ),
            Group.OUTPUT,
            names="engines",
        ),
    ] = ""
    explain: Annotated[
        bool,
        Field(
            (
                "Say all that stands behind the answer: why not the neighbours of each choice, where"
                " the others' acceptance comes from, the front, every measured run."
            ),
            Group.OUTPUT,
        ),
    ] = False
    seed: Seed = 0
