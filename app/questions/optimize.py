"""What does `optimize` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import (
    Batch,
    Context,
    Csv,
    Data,
    DraftShapes,
    DraftTokens,
    Expert,
    Fidelity,
    Json,
    ModelOrTraces,
    Pipeline,
    Quiet,
    Seed,
    SloTpot,
    SloTtft,
    StopRule,
)
from app.questions.groups import (
    AcceptanceOptions,
    DraftingOptions,
    JointOptions,
    RefiningOptions,
    StoredOptions,
)
from app.questions.resolve.unnamed import DEFAULT_TREES

DEFAULT_BATCHES = "1,2,4,8,16,32,64,128,256"
DEFAULT_FLOOR = 0.95
DEFAULT_OUT = Path("rooftree-out")
SecondScrape = Annotated[
    Path | None,
    Field(
        "The second scrape of --metrics.",
        Group.WORKLOAD,
        placeholder="[AFTER]",
        argument=True,
    ),
]
Traces = Annotated[
    list[Path] | None,
    Field("Acceptance trace; repeat to compare methods.", Group.DRAFTING),
]
Metrics = Annotated[
    list[Path] | None,
    Field(
        (
            "Text of an engine's /metrics (vLLM, SGLang, TensorRT-LLM, llama.cpp), scraped"
            " twice, or once for all "
            "since it started: should the draft length that runs be changed, and what should be"
            " measured next?"
        ),
        Group.WORKLOAD,
        placeholder="BEFORE [AFTER]",
    ),
]
MethodOfNumbers = Annotated[
    str,
    Field(
        "Method of stated acceptance, of traces that name none or have such a drafter.",
        Group.DRAFTING,
        names="methods",
    ),
]
TreeNodes = Annotated[
    str,
    Field(
        "Draft tokens of trees, static and dynamic, root excluded; 0 for none.",
        Group.DRAFTING,
    ),
]
QualityFloor = Annotated[
    float | None,
    Field(
        (
            "Least share of tokens that masked blocks share with one token a pass, for a"
            " --method that refines "
            f"them; default {DEFAULT_FLOOR}."
        ),
        Group.LIMITS,
    ),
]
EngineFolder = Annotated[
    Path | None, Field("Folder for engine files and the answer.", Group.OUTPUT)
]
Explain = Annotated[
    bool,
    Field(
        "Say why each choice and not its neighbours: what they lose, and by what.",
        Group.OUTPUT,
    ),
]


@dataclass(frozen=True, kw_only=True)
class OptimizeQuestion(
    RefiningOptions, JointOptions, AcceptanceOptions, DraftingOptions, StoredOptions, Question
):
    """Search drafters, draft lengths, trees and batches; write what engines load."""

    answered_by: ClassVar[str] = "app.answers.joint.answer"
    after: SecondScrape = None
    model: ModelOrTraces = ""
    trace: Traces = None
    metrics: Metrics = None
    method: MethodOfNumbers = ""
    batch: Batch = DEFAULT_BATCHES
    context: Context = "1024"
    shape: DraftShapes = None
    draft_tokens: DraftTokens = None
    tree_nodes: TreeNodes = DEFAULT_TREES
    stop: StopRule = ""
    slo_ttft: SloTtft = None
    slo_tpot: SloTpot = None
    quality_floor: QualityFloor = None
    pp: Pipeline = 1
    ep: Expert = 1
    dp: Data = 1
    fidelity: Fidelity = "calibrated"
    out: EngineFolder = DEFAULT_OUT
    explain: Explain = False
    csv: Csv = None
    seed: Seed = 0
    json: Json = False
    quiet: Quiet = False
