"""What does `export` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import DraftDtype, Dtype, Json, KvDtype, Quiet, Seed, Trace
from app.questions.groups import AcceptanceOptions
from app.questions.values import MOST_DRAFT_TOKENS, MethodName, Rates

_Devices = Annotated[int | None, Field("Devices that share every layer.", Group.HARDWARE, least=1)]
_Length = Annotated[
    int | None,
    Field("Most tokens of a request, prompt and answer.", Group.WORKLOAD, least=1),
]


@dataclass(frozen=True, kw_only=True)
class StartedOptions:
    """What is started: the configuration to begin with, and what stands in the place of its
    parts.
    """

    config: Annotated[
        Path | None,
        Field(
            "A configuration, or recommendation.json; else state one.",
            Group.WORKLOAD,
            also="--from",
        ),
    ] = None
    batch: Annotated[
        int | None,
        Field("Batch of the choice to export; default: the first.", Group.WORKLOAD, least=1),
    ] = None
    context: Annotated[
        int | None,
        Field("Context of the choice; default: the first.", Group.WORKLOAD, least=0),
    ] = None
    model: Annotated[str | None, Field("Target: shipped name, hub id or path.", Group.WORKLOAD)] = (
        None
    )
    draft: Annotated[
        str | None,
        Field(
            "Draft model or head: hub id or path; default: one published for the target.",
            Group.DRAFTING,
        ),
    ] = None
    method: Annotated[
        str | None,
        Field(
            "Method slug, as an engine calls it, or TOML file.",
            Group.DRAFTING,
            reads=MethodName(),
        ),
    ] = None
    draft_tokens: Annotated[
        int | None,
        Field("Draft tokens K.", Group.DRAFTING, least=0, most=MOST_DRAFT_TOKENS),
    ] = None
    tree: Annotated[
        Path | None,
        Field("Tree: JSON, FILE.py[:NAME] of Medusa or EAGLE, Sequoia's growmap.", Group.DRAFTING),
    ] = None
    schedule: Annotated[
        str | None, Field("K by batch size, as 1-16:5,17-64:3,65-512:0.", Group.DRAFTING)
    ] = None
    no_schedule: Annotated[
        bool,
        Field("One draft length, though the file has a schedule.", Group.DRAFTING),
    ] = False
    ngram_min: Annotated[
        int | None, Field("Shortest n-gram looked up.", Group.DRAFTING, least=1)
    ] = None
    ngram_max: Annotated[
        int | None, Field("Longest n-gram looked up.", Group.DRAFTING, least=1)
    ] = None


@dataclass(frozen=True, kw_only=True)
class ServedOptions:
    """Where it runs, in which formats and up to which limits."""

    tp: _Devices = None
    pp: Annotated[int | None, Field("Stages of consecutive layers.", Group.HARDWARE, least=1)] = (
        None
    )
    ep: Annotated[
        int | None, Field("Devices that share the routed experts.", Group.HARDWARE, least=1)
    ] = None
    dp: Annotated[
        int | None, Field("Copies of the layers other than experts.", Group.HARDWARE, least=1)
    ] = None
    node_devices: Annotated[
        int,
        Field("Devices of one server; more spread over several servers.", Group.HARDWARE, least=1),
    ] = 8
    dtype: Dtype = None
    kv_dtype: KvDtype = None
    draft_dtype: DraftDtype = None
    max_batch: Annotated[
        int | None,
        Field(
            "Most requests decoded at once; default: the engine's limit.", Group.WORKLOAD, least=1
        ),
    ] = None
    max_length: _Length = None


@dataclass(frozen=True, kw_only=True)
class ImitatedOptions(AcceptanceOptions):
    """Acceptance that the engine draws instead of verifying."""

    acceptance_by_depth: Annotated[
        tuple[float, ...] | None,
        Field(
            "P(first d draft tokens kept), d = 1..K, comma-separated.",
            Group.DRAFTING,
            reads=Rates(),
        ),
    ] = None
    trace: Trace = None


@dataclass(frozen=True, kw_only=True)
class ExportQuestion(ImitatedOptions, ServedOptions, StartedOptions, Question):
    """Write a configuration in the form that an engine loads.

    What the engine's version cannot express is refused.
    """

    answered_by: ClassVar[str] = "app.answers.export"
    begins: ClassVar[tuple[str, ...]] = (
        "config",
        "model",
        "method",
        "draft_tokens",
        "tp",
        "batch",
        "out",
        "approximate",
        "engine_version",
        "json",
    )
    engine: Annotated[
        str,
        Field(
            (
                "vllm, sglang, tensorrt-llm, llama.cpp or transformers; for masked blocks sglang,"
                " lmdeploy, fast-dllm or dinfer; or a form of --tree: medusa-choices, eagle-choices,"
                " sequoia-growmap, vllm-tree or samd-json."
            ),
            Group.WORKLOAD,
            argument=True,
        ),
    ]
    engine_version: Annotated[str | None, Field("Version to write for.", Group.HARDWARE)] = None
    variant: Annotated[
        str,
        Field(
            "The engine's other implementation of the drafting: ngram_gpu, ngram-mod.",
            Group.DRAFTING,
        ),
    ] = ""
    approximate: Annotated[
        bool,
        Field("Write the nearest thing the engine has for what it cannot express.", Group.DRAFTING),
    ] = False
    synthetic: Annotated[
        bool,
        Field("Write acceptance rates that the engine imitates, to try a what-if.", Group.DRAFTING),
    ] = False
    out: Annotated[Path | None, Field("Folder for the files.", Group.OUTPUT)] = Path("rooftree-out")
    seed: Seed = 0
    json: Json = False
    quiet: Quiet = False
