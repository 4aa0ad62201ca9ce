"""What do the `traces` verbs ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import (
    Batch,
    Device,
    Engine,
    Json,
    MatchRate,
    Quiet,
    Seed,
    TensorParallel,
)
from app.questions.groups import OutputOptions
from app.questions.values import MOST_DRAFT_TOKENS, WholeNumbers

_FORMATS = (
    "Format of the file; else the one format that its content shows. Acceptance, engines:"
    " vllm-metrics, vllm-log, vllm-bench, vllm-responses, sglang-log, sglang-metrics, sglang-bench,"
    " sglang-responses, tensorrt-llm-stats, tensorrt-llm-metrics, tensorrt-llm-responses,"
    " llama-cpp-log, llama-cpp-timings, llama-cpp-metrics, lmdeploy-log, lmdeploy-metrics."
    " Acceptance, benchmarks: answers (Spec-Bench, Medusa, EAGLE, Hydra, REST), acceptance-table,"
    " specdecode-bench, position-json, guidellm, aiperf; of loops: jacobi-passes. Requests: azure, mooncake, burstgpt,"
    " sharegpt, lengths, vllm-requests, guidellm-requests, aiperf-requests, genai-perf-requests;"
    " request-log (any table or log of requests). Confidence: masked-passes. An"
    " engine's name (vllm, sglang, tensorrt-llm, llama-cpp, lmdeploy), trtllm-metrics, spec-bench"
    " and eagle-eval stand for what the file shows of theirs."
)


@dataclass(frozen=True, kw_only=True)
class TracesListQuestion(OutputOptions, Question):
    """List the recordings that come with rooftree.

    Target, drafter, device, licence, level and tokens per step of every one.
    """

    answered_by: ClassVar[str] = "app.answers.recordings.listed"
    model: Annotated[str | None, Field("Only recordings of this target.", Group.WORKLOAD)] = None
    method: Annotated[str | None, Field("Only recordings of this method.", Group.DRAFTING)] = None
    draft_tokens: Annotated[
        int,
        Field(
            "Draft tokens K of a chain, where a recording tells of several.",
            Group.DRAFTING,
            least=0,
            most=64,
        ),
    ] = 5
    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class TracesInspectQuestion(OutputOptions, Question):
    """Show what a trace holds.

    Its level, its provenance, and tokens per step by prompt kind.
    """

    answered_by: ClassVar[str] = "app.answers.recordings.inspect"
    file: Annotated[Path, Field("Trace to look into.", Group.WORKLOAD, argument=True)]
    draft_tokens: Annotated[
        tuple[int, ...],
        Field(
            "Draft tokens K at which it is replayed, comma-separated.",
            Group.DRAFTING,
            reads=WholeNumbers(least=0, most=MOST_DRAFT_TOKENS),
        ),
    ] = (1, 3, 5, 8)
    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class TracesCompareQuestion(OutputOptions, Question):
    """Compare drafters, or decoding policies, on recorded traces.

    Acceptance by drafter, prompt kind and depth, and tokens per step with 80 % intervals.
    """

    answered_by: ClassVar[str] = "app.answers.recordings.compare"
    files: Annotated[
        list[Path],
        Field(
            "Traces to set side by side, by path or shipped name.", Group.WORKLOAD, argument=True
        ),
    ]
    draft_tokens: Annotated[
        int, Field("Draft tokens K at which they are compared.", Group.DRAFTING, least=1, most=64)
    ] = 5
    kind: Annotated[
        str | None, Field("Only this kind of prompt; `all` is their sum.", Group.WORKLOAD)
    ] = None
    plot: Annotated[
        Path | None,
        Field("Draw acceptance over depth as an HTML page.", Group.OUTPUT, place="file"),
    ] = None
    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class TracesLossesQuestion(OutputOptions, Question):
    """Say what is lost where only rates or a mean are known.

    Drafts are chosen by the recording, by rates and by the mean, and run on the recording.
    """

    answered_by: ClassVar[str] = "app.answers.recordings.losses"
    files: Annotated[
        list[Path] | None,
        Field(
            "Recordings of acceptance, by path or shipped name; else those of GPUs that ship, and of CPUs with ranks.",
            Group.WORKLOAD,
            argument=True,
        ),
    ] = None
    batch: Batch = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    context: Annotated[int, Field("Cached tokens per request.", Group.WORKLOAD, least=0)] = 1024
    device: Device = "h100-sxm,a100-sxm-80,l40s"
    tp: TensorParallel = 1
    engine: Engine = "vllm"
    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class TracesImportQuestion(Question):
    """Convert a log or a result file to a trace.

    The answer says what the file yields and what it cannot know.
    """

    answered_by: ClassVar[str] = "app.answers.recordings.imported"
    files: Annotated[
        list[Path],
        Field(
            "File to import; of counters two scrapes, before and after, or one.",
            Group.WORKLOAD,
            argument=True,
        ),
    ]
    form: Annotated[str | None, Field(_FORMATS, Group.RUN, spelled="--format")] = None
    out: Annotated[
        Path | None,
        Field(
            "Parquet file to write; else named like the last file, here.", Group.OUTPUT, also="-o"
        ),
    ] = None
    drafter: Annotated[
        str | None,
        Field("Which drafter or row of the file, where it holds several.", Group.DRAFTING),
    ] = None
    draft_tokens: Annotated[
        int | None,
        Field(
            "Draft length K in use, where the file does not tell it.",
            Group.DRAFTING,
            least=1,
            most=1024,
        ),
    ] = None
    model: Annotated[
        str,
        Field("Target model, where the file does not name it or names several.", Group.WORKLOAD),
    ] = ""
    method: Annotated[
        str, Field("Method slug, where the file does not name it.", Group.DRAFTING)
    ] = ""
    match_rate: MatchRate = None
    seed: Seed = 0
    json: Json = False
    quiet: Quiet = False
