"""What does `tree` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import Batch, Context, Model, Seed
from app.questions.groups import DraftingOptions, OutputOptions, PlacedOptions, StatedDrafters
from app.questions.values import MethodName, RatesOrFile, WholeNumbers

MOST_NODES = 4096


@dataclass(frozen=True, kw_only=True)
class RatesOrRecording:
    """What is accepted of the candidates, by rates or a file."""

    acceptance: Annotated[
        tuple[float, ...] | Path | None,
        Field(
            (
                "One rate (0.72), rates by position (0.78,0.61,0.48), a recorded trace, or sibling"
                " vectors as a JSON list."
            ),
            Group.DRAFTING,
            reads=RatesOrFile(),
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class TreeQuestion(
    OutputOptions, DraftingOptions, PlacedOptions, StatedDrafters, RatesOrRecording, Question
):
    """Find the tree that emits the most tokens per step.

    It lies within a budget of nodes and levels.

    With --model also the fastest tree where that model runs: each level costs a draft pass, and all
    nodes one pass that verifies them. --device, --engine, --batch and --context say where.

    Of a method whose candidates carry prompt tokens (ppd), the trees of all states are found
    together, as deep as the method drafts.

    --acceptance also takes a file: a recorded trace, or a sibling vector as a JSON list (one list
    per depth where they differ). From rates alone, siblings are taken to be tried in turn.

    With --split-over the nodes are those of a whole batch: how many each request should get, and
    what that gains.
    """

    answered_by: ClassVar[str] = "app.answers.trees.tree"
    begins: ClassVar[tuple[str, ...]] = (
        "acceptance",
        "nodes",
        "depth",
        "batch",
        "model",
        "device",
        "method",
        "json",
        "out",
    )
    model: Model = ""
    method: Annotated[
        str,
        Field(
            (
                "Method of stated acceptance; one whose trees carry prompt tokens (ppd) has a tree"
                " for every state."
            ),
            Group.DRAFTING,
            reads=MethodName(),
            names="methods",
        ),
    ] = ""
    nodes: Annotated[
        tuple[int, ...],
        Field(
            "Nodes, root included, comma-separated; prompt tokens are nodes, too.",
            Group.DRAFTING,
            reads=WholeNumbers(least=1, most=MOST_NODES),
        ),
    ] = (64, 256)
    depth: Annotated[
        int, Field("Most levels, root included.", Group.DRAFTING, least=1, most=MOST_NODES)
    ] = 10
    batch: Batch = (1, 8, 64)
    context: Context = (1024,)
    captured_rows: Annotated[
        tuple[int, ...],
        Field(
            "Rows of a batch that the engine has captured graphs for: 1,2,4,8,16.",
            Group.DRAFTING,
            reads=WholeNumbers(least=1),
        ),
    ] = ()
    held_out: Annotated[
        bool,
        Field(
            "Also choose on half of a recording's requests, and replay on the other half.",
            Group.SEARCH,
        ),
    ] = False
    robust: Annotated[
        bool,
        Field(
            (
                "Also the tree that is safest under the sampling error, and how many tokens are"
                " enough."
            ),
            Group.SEARCH,
        ),
    ] = False
    recorded_tokens: Annotated[
        int | None,
        Field("Positions that a vector was counted on, for --robust.", Group.DRAFTING, least=1),
    ] = None
    split_over: Annotated[
        str | None,
        Field(
            (
                "Requests of one batch that share the nodes: so many of the recording, or a JSON"
                " file with a survival "
                "vector, P(first d draft tokens kept), for each."
            ),
            Group.DRAFTING,
        ),
    ] = None
    seed: Seed = 0
