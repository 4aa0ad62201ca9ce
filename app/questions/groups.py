"""The fields that several verbs take together: records that a verb receives as one parameter."""

from dataclasses import dataclass, fields
from typing import Annotated, Any

from app.questions.field import Field, Group
from app.questions.fields import (
    Acceptance,
    AsFamily,
    Block,
    Cache,
    Canvas,
    Commit,
    ContextGroup,
    Count,
    Csv,
    Data,
    Device,
    Disaggregate,
    Draft,
    DraftBytes,
    DraftDtype,
    Drafters,
    DraftName,
    DraftPasses,
    Dtype,
    Engine,
    EngineLog,
    ExitLayer,
    Expert,
    Fidelity,
    HostWeights,
    Json,
    KeyEnv,
    KvDtype,
    MatchRate,
    MaxLoraRank,
    MaxLoras,
    Out,
    OutputTokens,
    Overrides,
    Pipeline,
    PromptTokens,
    Quiet,
    Rate,
    RequestFile,
    Served,
    SharedPrefix,
    SloE2e,
    SloTpot,
    SloTtft,
    SplitVerify,
    TensorParallel,
    ThinkTime,
    TokensPerStep,
    Url,
    Users,
)
from app.questions.values import OneOf, WholeNumbers


@dataclass(frozen=True, kw_only=True)
class EngineFormats:
    """The engine, the number formats and the adapters, whatever the device."""

    as_family: AsFamily = None  # becomes part of the model's name as soon as that is read
    engine: Engine = "vllm"
    dtype: Dtype = None
    kv_dtype: KvDtype = None
    draft_dtype: DraftDtype = None
    max_loras: MaxLoras = 0
    max_lora_rank: MaxLoraRank = 16


@dataclass(frozen=True, kw_only=True)
class DeploymentOptions(EngineFormats):
    """The whole deployment of a scenario, whose other keys `--set` reaches."""

    device: Device = "h100-sxm"
    tp: TensorParallel = 1
    pp: Pipeline = 1
    ep: Expert = 1
    dp: Data = 1
    cp: ContextGroup = 1
    split_verify: SplitVerify = None
    shared_prefix: SharedPrefix = 0
    host_weights: HostWeights = 0.0
    fidelity: Fidelity = "calibrated"


@dataclass(frozen=True, kw_only=True)
class FormatOptions(EngineFormats):
    """What goes over the numbers of a device and an engine, beside them."""

    overrides: Overrides = None
    engine_log: EngineLog = None


@dataclass(frozen=True, kw_only=True)
class PlacedOptions(FormatOptions):
    """One device or tensor-parallel group beside them."""

    device: Device = "h100-sxm"
    tp: TensorParallel = 1
    split_verify: SplitVerify = None


@dataclass(frozen=True, kw_only=True)
class StoredOptions(PlacedOptions):
    """What of the cache and the weights lies elsewhere, too."""

    shared_prefix: SharedPrefix = 0
    host_weights: HostWeights = 0.0


@dataclass(frozen=True, kw_only=True)
class DraftingOptions:
    """The drafter: a model, an exit, or the cost of an unpublished one."""

    draft: Draft = None
    draft_passes: DraftPasses = None
    draft_bytes: DraftBytes = None
    draft_name: DraftName = None
    exit_layer: ExitLayer = None


@dataclass(frozen=True, kw_only=True)
class StatedRates:
    """What is accepted of the drafts, by rates."""

    acceptance: Acceptance = None


@dataclass(frozen=True, kw_only=True)
class StatedDrafters:
    """What is accepted of the drafts, in other words than rates or a trace of its own option."""

    tokens_per_step: TokensPerStep = None
    drafter: Drafters = None
    match_rate: MatchRate = None


@dataclass(frozen=True, kw_only=True)
class AcceptanceOptions(StatedDrafters, StatedRates):
    """What is accepted of the drafts, other than by a trace of its own option."""


@dataclass(frozen=True, kw_only=True)
class RefiningOptions:
    """How a method that refines masked blocks commits them, in place of its own rule."""

    commit: Commit = None
    block: Block = None
    cache: Cache = None
    canvas: Canvas = None


@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """The limits of latency."""

    slo_ttft: SloTtft = None
    slo_tpot: SloTpot = None
    slo_e2e: SloE2e = None


@dataclass(frozen=True, kw_only=True)
class ScreenOptions:
    """What the screen shows of an answer."""

    json: Json = False
    quiet: Quiet = False


@dataclass(frozen=True, kw_only=True)
class OutputOptions(ScreenOptions):
    """Where an answer goes beside the screen."""

    out: Out = None
    csv: Csv = None


@dataclass(frozen=True, kw_only=True)
class LiveServerOptions:
    """The server that is spoken to."""

    url: Url
    model: Served = None
    key_env: KeyEnv = None


_REQUEST_KEYS = {
    "requests": "requests.file",
    "rate": "requests.rate_per_s",
    "users": "requests.users",
    "think_time": "requests.think_s",
    "count": "requests.count",
    "prompt_tokens": "requests.prompt_tokens",
    "output_tokens": "requests.output_tokens",
}


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """The requests of a load: recorded, or drawn by arrivals or users."""

    requests: RequestFile = None
    rate: Rate = None
    users: Users = None
    think_time: ThinkTime = None
    count: Count = None
    prompt_tokens: PromptTokens = None
    output_tokens: OutputTokens = None

    @property
    def named(self) -> dict[str, Any]:
        """By the keys of a scenario; None where an option was not given."""
        values = {key: getattr(self, name) for name, key in _REQUEST_KEYS.items()}
        return values | {"requests.file": None if self.requests is None else str(self.requests)}


REQUEST_OPTIONS = {key: f"--{name.replace('_', '-')}" for name, key in _REQUEST_KEYS.items()}
"""The option that states each key of a scenario's requests."""


@dataclass(frozen=True, kw_only=True)
class JointOptions:
    """What a joint search varies beside the drafts, and the load that it serves."""

    search: Annotated[
        str,
        Field(
            (
                "drafts: drafters and draft lengths at every --batch; full: devices, layouts,"
                " formats, batch caps and token budgets too, under a load, the best confirmed by"
                " simulation. With full --device, --dtype and --kv-dtype take several by commas."
            ),
            Group.SEARCH,
            reads=OneOf(("drafts", "full")),
        ),
    ] = "drafts"
    maximise: Annotated[
        str,
        Field(
            "With --search full: tokens, goodput, tokens-per-dollar or tokens-per-joule.",
            Group.SEARCH,
        ),
    ] = "tokens"
    devices: Annotated[
        int,
        Field(
            "With --search full: most devices of a kind, all replicas together.",
            Group.HARDWARE,
            least=1,
        ),
    ] = 1
    layouts: Annotated[
        str | None,
        Field(
            (
                "With --search full: of a replica, such as tp1,tp2,tp2dp4ep8; default: powers of"
                " two that --devices hold, with experts whole or shared."
            ),
            Group.SEARCH,
        ),
    ] = None
    batch_caps: Annotated[
        tuple[int, ...] | None,
        Field(
            "With --search full: most requests in flight of a scheduler.",
            Group.SEARCH,
            reads=WholeNumbers(least=1),
        ),
    ] = None
    token_budgets: Annotated[
        tuple[int, ...] | None,
        Field(
            "With --search full: most query tokens of an iteration (chunk sizes).",
            Group.SEARCH,
            reads=WholeNumbers(least=1),
        ),
    ] = None
    simulate: Annotated[
        bool,
        Field(
            "With --search full: confirm the best by simulation.",
            Group.SEARCH,
            spelled="--simulate/--no-simulate",
        ),
    ] = True
    disaggregate: Disaggregate = False
    good_share: Annotated[
        float | None,
        Field(
            (
                "With --search full: share of the requests that must be within the limits. Default:"
                " their means."
            ),
            Group.LIMITS,
        ),
    ] = None
    requests: RequestFile = None
    rate: Rate = None
    prompt_tokens: PromptTokens = None
    output_tokens: OutputTokens = None


def names_in(group: type) -> list[str]:
    """Parameters of the options of a group."""
    return [option.name for option in fields(group)]


def values_in(group: type, question: Any) -> dict[str, Any]:
    """Values of the options of a group, by parameter.

    Args:
        group: a record of options.
        question: an instance of it, or of a question that inherits it.
    """
    return {name: getattr(question, name) for name in names_in(group)}
