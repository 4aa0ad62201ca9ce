"""What does `replay` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import (
    Batch,
    DraftShapes,
    MatchRate,
    Model,
    Seed,
    StatedDraftTokens,
    StopRule,
)
from app.questions.groups import OutputOptions, PlacedOptions
from app.questions.values import MethodName


@dataclass(frozen=True, kw_only=True)
class ReplayQuestion(OutputOptions, PlacedOptions, Question):
    """Replay recorded requests with draft lengths and trees.

    An engine's counters (level 0) answer for chains alone; trees need a recording.

    --held-out compares our choice with policies of papers and engines: each chooses on half of the
    requests and is run on the other half, at every --batch on --device.
    """

    answered_by: ClassVar[str] = "app.answers.replay"
    begins: ClassVar[tuple[str, ...]] = (
        "trace",
        "draft_tokens",
        "tree",
        "shape",
        "held_out",
        "model",
        "device",
        "batch",
        "json",
        "out",
    )
    trace: Annotated[
        Path,
        Field(
            "Acceptance trace: Parquet, position JSON, or a shipped one by name.",
            Group.WORKLOAD,
            argument=True,
        ),
    ]
    draft_tokens: StatedDraftTokens = (1, 3, 5)
    tree: Annotated[list[Path] | None, Field("Tree JSON; repeat for several.", Group.DRAFTING)] = (
        None
    )
    method: Annotated[
        str,
        Field(
            "Method whose verifier decides what stays; default: the trace's.",
            Group.DRAFTING,
            reads=MethodName(),
        ),
    ] = ""
    verifier: Annotated[
        str,
        Field(
            (
                "Rule that decides what stays instead: match, token_rejection, with_replacement,"
                " without_replacement, fixed_candidates, block, multi_path_block, typical or"
                " near_match."
            ),
            Group.DRAFTING,
        ),
    ] = ""
    shape: DraftShapes = None
    stop: StopRule = ""
    match_rate: MatchRate = None
    held_out: Annotated[
        bool,
        Field(
            (
                "Our choice beside published policies, each chosen on half of the requests and run"
                " on the other."
            ),
            Group.SEARCH,
        ),
    ] = False
    model: Model = ""
    batch: Batch = (1, 8, 64)
    context: Annotated[
        int, Field("Cached tokens per request, of --held-out.", Group.WORKLOAD, least=0)
    ] = 1024
    splits: Annotated[
        int, Field("Times that requests are halved, of --held-out.", Group.SEARCH, least=1)
    ] = 10
    seed: Seed = 0
