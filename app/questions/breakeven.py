"""What does `breakeven` ask?"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import (
    Against,
    Batch,
    Context,
    DraftShapes,
    Fidelity,
    MethodOrTraces,
    Model,
    Seed,
    Trace,
    TreeFile,
)
from app.questions.groups import (
    AcceptanceOptions,
    DraftingOptions,
    OutputOptions,
    PlacedOptions,
    RefiningOptions,
)
from app.questions.values import MOST_DRAFT_TOKENS, WholeNumbers


@dataclass(frozen=True, kw_only=True)
class BreakevenQuestion(
    OutputOptions, RefiningOptions, AcceptanceOptions, DraftingOptions, PlacedOptions, Question
):
    """Find the least acceptance at which a method pays off.

    Also the largest draft cost, and the batches at which it beats plain decoding.
    """

    answered_by: ClassVar[str] = "app.answers.breakeven"
    begins: ClassVar[tuple[str, ...]] = (
        "model",
        "device",
        "engine",
        "dtype",
        "tp",
        "batch",
        "context",
        "drafter",
        "curves",
        "out",
        "json",
    )
    model: Model
    method: MethodOrTraces = ""
    trace: Trace = None
    tree: TreeFile = None
    shape: DraftShapes = None
    batch: Batch = (1, 8, 64)
    context: Context = (1024,)
    against: Against = ""
    draft_tokens: Annotated[
        tuple[int, ...] | None,
        Field(
            "Draft tokens K, comma-separated; 0, which drafts nothing, is left out. Default:"
            " the fastest at the first batch of those that are known of the drafter, else 3.",
            Group.DRAFTING,
            reads=WholeNumbers(least=0, most=MOST_DRAFT_TOKENS),
        ),
    ] = None
    curves: Annotated[
        bool,
        Field(
            "Also the speedup over acceptance and over memory bandwidth, and where each crosses 1;"
            " --csv then has their points.",
            Group.OUTPUT,
        ),
    ] = False
    fidelity: Fidelity = "calibrated"
    seed: Seed = 0
