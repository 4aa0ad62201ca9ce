"""What does `simulate` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import Config, DraftShapes, ModelOfScenario, Seed
from app.questions.groups import (
    AcceptanceOptions,
    DeploymentOptions,
    DraftingOptions,
    LimitOptions,
    OutputOptions,
    RefiningOptions,
    RequestOptions,
)
from app.questions.values import MOST_DRAFT_TOKENS, MethodName, PositiveNumbers, WholeNumbers

MOST_SEEDS = 1000


@dataclass(frozen=True, kw_only=True)
class SimulateQuestion(
    OutputOptions,
    LimitOptions,
    RefiningOptions,
    AcceptanceOptions,
    DraftingOptions,
    DeploymentOptions,
    RequestOptions,
    Question,
):
    """Simulate serving under a load of requests.

    Arrivals, router, scheduler, cache and speculation, with one event per engine iteration.

    The options here are the usual ones; --set and --scenario reach every key, and --explain-schema
    lists them.

    Example: rooftree simulate --model llama-3.1-8b --rate 4 --count 500 --prompt-tokens
    lognormal:1000:1 --output-tokens exponential:250 --slo-ttft 1000 --slo-tpot 50 --set
    scheduler.token_budget=2048
    """

    answered_by: ClassVar[str] = "app.answers.simulations.simulate"
    begins: ClassVar[tuple[str, ...]] = (
        "model",
        "device",
        "dtype",
        "tp",
        "requests",
        "rate",
        "users",
        "count",
        "prompt_tokens",
        "output_tokens",
        "drafter",
        "draft_tokens",
        "slo_tpot",
        "scenario",
        "assigned",
        "json",
    )
    model: ModelOfScenario = None
    trace: Annotated[
        str | None,
        Field(
            (
                "Trace that simulated requests walk along: of acceptance, or of a masked model's"
                " confidence."
            ),
            Group.DRAFTING,
        ),
    ] = None
    method: Annotated[
        str | None,
        Field(
            "Method slug (`rooftree methods`) or TOML file; default: the trace's.",
            Group.DRAFTING,
            reads=MethodName(),
        ),
    ] = None
    shape: DraftShapes = None
    draft_tokens: Annotated[
        tuple[int, ...] | None,
        Field(
            (
                "Draft tokens K; several by commas are compared, at --users or at --rate and at the"
                " highest rate. Default: of counters or a log as --trace the K that ran, else the"
                " method's own."
            ),
            Group.DRAFTING,
            reads=WholeNumbers(least=0, most=MOST_DRAFT_TOKENS),
        ),
    ] = None
    config: Config = None
    scenario: Annotated[
        Path | None,
        Field(
            (
                "YAML of sections (requests, deployment, scheduler, speculation, slo and more:"
                " --explain-schema lists "
                "every key); options go over what it says."
            ),
            Group.WORKLOAD,
        ),
    ] = None
    assigned: Annotated[
        list[str] | None,
        Field(
            (
                "Any key of a scenario: section.key=VALUE (see --explain-schema), or a device's"
                " number: "
                "device.KEY=VALUE. Repeatable."
            ),
            Group.HARDWARE,
            spelled="--set",
        ),
    ] = None
    explain_schema: Annotated[
        bool,
        Field("List every section.key with type, default, range and meaning.", Group.OUTPUT),
    ] = False
    compare: Annotated[
        list[str] | None,
        Field(
            (
                "Run a variant on the same requests too: chunked, prefill-first, whole-prompts,"
                " no-prefix-cache, "
                "reserve-output, or autoregressive (one token a pass, nothing drafted or masked)."
                " Repeatable. Where "
                "prompts stay whole, the token budget grows to the longest of them."
            ),
            Group.SEARCH,
        ),
    ] = None
    policies: Annotated[
        str | None,
        Field(
            (
                "Who sets the draft length while serving, compared on the same requests: names with"
                " commas between, "
                "or all. ours (by batch, as exported), cost, vllm, sglang, sglang-throughput,"
                " tensorrt-llm, nightjar, goodput, fixed, plain, "
                "and the bounds expected and oracle. --draft-tokens is the longest."
            ),
            Group.SEARCH,
        ),
    ] = None
    rates: Annotated[
        tuple[float, ...] | None,
        Field(
            "Run at these loads too, requests per second: 1,2,4.",
            Group.WORKLOAD,
            reads=PositiveNumbers(),
        ),
    ] = None
    good_share: Annotated[
        float | None,
        Field(
            (
                "Find the highest rate at which this share of the requests is within --slo-ttft and"
                " --slo-tpot, for "
                "every draft length or variant; --rates shows goodput there too. Default with"
                " several K: 0.9."
            ),
            Group.LIMITS,
        ),
    ] = None
    beside: Annotated[
        list[Path] | None,
        Field(
            (
                "Folder of `load --out`: its requests are simulated, and what users of the live"
                " server saw stands "
                "beside. Repeatable; --out keeps replay.json and replay.parquet, to which further"
                " calls add."
            ),
            Group.WORKLOAD,
        ),
    ] = None
    seeds: Annotated[
        int,
        Field("Repeat over so many seeds, for intervals.", Group.RUN, least=1, most=MOST_SEEDS),
    ] = 1
    per_request: Annotated[Path | None, Field("Parquet with a row per request.", Group.OUTPUT)] = (
        None
    )
    timeline: Annotated[
        Path | None,
        Field(
            "JSON of trace events for Perfetto or chrome://tracing; with --policies a file of each,"
            " whose name ends in the policy's.",
            Group.OUTPUT,
        ),
    ] = None
    plot: Annotated[
        Path | None,
        Field("HTML page: waiting times, load over time, goodput over load.", Group.OUTPUT),
    ] = None
    seed: Seed = 0
