"""What does a person's scenario say?

A YAML file of sections (requests, deployment or profile, scheduler, speculation, limits), read
safely and checked key by key. Leaves out what becomes of it (`simulator.scenario.build`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator

from costmodel.adapter_limits import MOST_ADAPTERS, MOST_RANK
from costmodel.answers.workload import Limits
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.outside_file import read_bounded
from hardware_profiles.places import is_place
from hardware_profiles.refusals import refusal
from simulator.loop.options import Router
from simulator.scenario.sections import (
    BlocksSection,
    DisaggregationSection,
    FeedForwardSection,
    NotNegative,
    Positive,
    Ratio,
    Replicas,
    SampledReplicas,
    Section,
    Shares,
    SpeculationSection,
    Whole,
)

MAX_SCENARIO_BYTES = 1 << 20
Process = Literal["recorded", "poisson", "gamma", "modulated", "closed"]
# every place of a scenario that holds a path, as section and key
_PATHS = (
    ("requests", "file"),
    ("deployment", "model"),
    ("deployment", "device"),
    ("profile", "prefix"),
    ("profile", "engine"),
    ("speculation", "trace"),
    ("speculation", "tree"),
    ("speculation", "draft"),
    ("feed_forward", "device"),
    ("scheduler", "engine_log"),
)
_NAMES_TOO = ("model", "device", "draft")  # a shipped name unless such a file stands there


class Requests(Section):
    """Which requests arrive, and when.

    Attributes:
        file: recorded requests; None: lengths are drawn.
        format: of a foreign file; None: recognised by its columns.
        arrivals: recorded times, Poisson, gamma gaps, calm and bursts in turn (modulated), or a
            closed loop of users; where it is not stated, users mean closed, a rate means poisson,
            and neither means recorded.
        rate_per_s: mean requests per second of drawn arrivals.
        variation: of gamma gaps: standard deviation over mean.
        burst_ratio: rate of a burst over that of calm.
        calm_s: mean length of calm.
        burst_s: mean length of a burst.
        users: of a closed loop.
        think_s: between an answer and the user's next request, on average; users begin within so
            many seconds, at random.
        think_variation: of these times (gamma): standard deviation over mean; 0: all are equal, and
            users end in step.
        count: how many requests; None: all of the file.
        prompt_tokens: N, uniform:LOW:HIGH, exponential:MEAN or lognormal:MEAN:VARIATION, without a
            file.
        output_tokens: generated tokens of a request, in the same forms.
        speed: recorded arrivals this many times as fast.
        priorities: shares of requests by priority, lower first, where the file has none: {0: 0.2,
            1: 0.8} or 0:0.2,1:0.8.
    """

    file: str | None = None
    format: str | None = None
    arrivals: Process = "recorded"
    rate_per_s: Positive | None = None
    variation: Positive = 2.0
    burst_ratio: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 5.0
    calm_s: Positive = 60.0
    burst_s: Positive = 10.0
    users: Whole | None = None
    think_s: NotNegative = 0.0
    think_variation: NotNegative = 1.0
    count: Whole | None = None
    prompt_tokens: str | int | None = None
    output_tokens: str | int | None = None
    speed: Positive = 1.0
    priorities: Shares = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _usual_arrivals(cls, section: Any) -> Any:
        """What makes sense with one kind of arrivals alone chooses it where no other is stated."""
        if isinstance(section, dict) and section.get("arrivals") is None:
            usual = (
                "closed"
                if section.get("users")
                else "poisson"
                if section.get("rate_per_s")
                else "recorded"
            )
            return {**section, "arrivals": usual}
        return section

    @model_validator(mode="after")
    def _complete(self) -> Requests:
        drawn = self.arrivals in ("poisson", "gamma", "modulated")
        lengths = self.prompt_tokens is not None and self.output_tokens is not None
        if self.file is None and not (lengths and self.count):
            raise ValueError("without a file, count, prompt_tokens and output_tokens are needed")
        if self.file is not None and (
            self.prompt_tokens is not None or self.output_tokens is not None
        ):
            raise ValueError("prompt_tokens and output_tokens are for requests without a file")
        if self.arrivals == "recorded" and self.file is None:
            raise ValueError("recorded arrivals need a file")
        if self.priorities and abs(sum(self.priorities.values()) - 1.0) > 1e-6:
            raise ValueError("priorities: shares must sum to 1")
        if drawn != (self.rate_per_s is not None):
            raise ValueError(
                "rate_per_s goes with poisson, gamma and modulated arrivals, and they need it"
            )
        if (self.arrivals == "closed") != (self.users is not None):
            raise ValueError("users goes with closed arrivals, and they need it")
        if self.arrivals != "closed" and self.think_s:
            raise ValueError("think_s goes with users, who think between their requests")
        return self


class DeploymentSection(Section):
    """What the cost model times; keys as the options of other verbs.

    Attributes:
        model: shipped name, or path of a config.json.
        device: shipped name, or path of a TOML file.
        engine: whose overheads and scheduler defaults apply.
        tensor_parallel: devices that share every layer.
        pipeline_parallel: stages of consecutive layers.
        expert_parallel: devices that share the routed experts.
        data_parallel: copies of the other layers within one engine.
        context_parallel: devices that share the tokens of every request.
        dtype: weight format; None: the checkpoint's.
        kv_dtype: format of the cache; None: 16 bits.
        draft_dtype: weight format of a draft model or head; None: 16 bits, or its own checkpoint's.
        overrides: `device.KEY=VALUE`.
        fidelity: of the cost model.
        measured_passes: folder of `calibrate` with the passes that fidelity measured follows; None:
            those that ship.
        split_verify: attention splits the cache in verify passes; None: looked up by engine and
            device.
        transforms: names of compression and skipping presets, in order.
        shared_prefix_tokens: first tokens of every prompt that are the same for all: read, held and
            computed once.
        host_weights_ratio: share of the layers' weights that stays in the host's memory.
        max_loras: low-rank adapters that are resident, of which every request uses one; 0: none.
        max_lora_rank: of their matrices.
        cache_tokens: that the engine's cache holds, as it said itself; None: they follow from the
            memory.
    """

    model: str = ""
    device: str = "h100-sxm"
    engine: str = "vllm"
    tensor_parallel: Whole = 1
    pipeline_parallel: Whole = 1
    expert_parallel: Whole = 1
    data_parallel: Whole = 1
    context_parallel: Whole = 1
    dtype: str | None = None
    kv_dtype: str | None = None
    draft_dtype: str | None = None
    overrides: tuple[str, ...] = ()
    fidelity: Literal["calibrated", "datasheet", "measured"] = "calibrated"
    measured_passes: str | None = None
    split_verify: bool | None = None
    transforms: tuple[str, ...] = ()
    shared_prefix_tokens: Annotated[int, Field(ge=0, le=1 << 24)] = 0
    host_weights_ratio: Ratio = 0.0
    max_loras: Annotated[int, Field(ge=0, le=MOST_ADAPTERS)] = 0
    max_lora_rank: Annotated[int, Field(ge=1, le=MOST_RANK)] = 16
    cache_tokens: Whole | None = None

    @property
    def is_planned(self) -> bool:
        """Whether the model is spread beyond one tensor-parallel group."""
        return (
            max(
                self.pipeline_parallel,
                self.expert_parallel,
                self.data_parallel,
                self.context_parallel,
            )
            > 1
        )


class ProfileSection(Section):
    """A measured kernel profile instead of the cost model.

    Attributes:
        prefix: path of its files up to `_attention.parquet`.
        engine: JSON of the engine that it was measured under.
        overhead_s: seconds that the engine adds to an iteration.
    """

    prefix: str
    engine: str
    overhead_s: NotNegative = 0.0


# Names, types and ranges of what schedules are those of `costmodel.scheduler.Scheduler`, which a
# test holds them to; written out, since here its keys stand among those of the cache and say what
# is done where they are left open.
class SchedulerSection(Section):
    """Scheduler of every replica; what is None follows the engine's published defaults.

    Attributes:
        token_budget: most query tokens of an iteration.
        max_requests: most requests in flight.
        chunked_prefill: prompts may be split over iterations.
        prefill_first: prompts run alone, before anybody decodes, not beside decodes.
        prefix_cache: prompts share cache blocks.
        block_tokens: tokens of a cache block; None: 16.
        kv_blocks: blocks of the cache; None: what the engine said, else what memory leaves.
        engine_log: log or JSON of the running engine: the cache and the limits that it said it has,
            where this section does not state them.
        watermark_ratio: share of the blocks that admission leaves free.
        preemption: how a request that loses its blocks goes on.
        swap_block_s: seconds to swap a block one way; None: over the device's link to its host.
        reserve_ratio: admit only what fits with its whole prompt and this share of all tokens that
            are still to be generated.
        overlapped_scheduling: compose an iteration while the one before it runs; None: as the
            engine does.
        wait_iterations: iterations of requests that decode for which prompts wait for more of them;
            None: as the engine does.
        wait_ratio: share of the token budget that is enough to wait no longer; None: as the engine
            does.
        receive_iterations: iterations that only decode between two looks for new requests; None: as
            the engine does.
        numbered_slots: requests hold one of max_requests numbered slots, taken before an iteration
            is filled and served in that order; None: as the engine does.
        pass_tokens: most query tokens of a pass, of which an iteration may have several, 0: it is
            one pass; None: as the engine does.
        equal_passes: a pass holds equally many tokens of slots with consecutive numbers, as where
            each has a cache of its own; None: as the engine does.
        drafts_within_output: no tokens are drafted beyond the end of an output; None: as the engine
            does.
        intake_s: seconds that the front end needs for a request, one after another.
        intake_token_s: seconds for each token of its prompt on top.
        priorities: heed priorities of requests; None: where requests have some.
        horizon_s: requests that have not ended by then have failed; None: run to the end.
    """

    token_budget: Whole | None = None
    max_requests: Whole | None = None
    chunked_prefill: bool | None = None
    prefill_first: bool | None = None
    prefix_cache: bool | None = None
    block_tokens: Whole | None = None
    kv_blocks: Whole | None = None
    engine_log: str | None = None
    watermark_ratio: Annotated[float, Field(ge=0, lt=1)] = 0.0
    preemption: Literal["recompute", "swap"] = "recompute"
    swap_block_s: NotNegative | None = None
    reserve_ratio: Ratio | None = None
    overlapped_scheduling: bool | None = None
    wait_iterations: Annotated[int, Field(ge=0)] | None = None
    wait_ratio: Ratio | None = None
    receive_iterations: Whole | None = None
    numbered_slots: bool | None = None
    pass_tokens: Annotated[int, Field(ge=0)] | None = None
    equal_passes: bool | None = None
    drafts_within_output: bool | None = None
    intake_s: NotNegative = 0.0
    intake_token_s: NotNegative = 0.0
    priorities: bool | None = None
    horizon_s: Positive | None = None


class LimitsSection(Section):
    """Service-level objectives.

    Attributes:
        ttft_s: time to first token within which a request counts as good.
        tpot_s: time per output token within which a request counts as good.
        e2e_s: time from arrival to last token within which a request counts as good.
        admission: the scheduler turns away what would miss them.
    """

    ttft_s: Positive | None = None
    tpot_s: Positive | None = None
    e2e_s: Positive | None = None
    admission: bool = False

    @property
    def limits(self) -> Limits:
        """On the times of every request."""
        return Limits(ttft_s=self.ttft_s, tpot_s=self.tpot_s, e2e_s=self.e2e_s)


class ScenarioFile(Section):
    """A scenario as a person writes it.

    Attributes:
        schema_version: 1; the key is `schema`.
        requests: what arrives.
        deployment: what the cost model times.
        profile: or a measured profile.
        scheduler: of every replica.
        speculation: None: plain decoding.
        blocks: a decoder of blocks in its place.
        slo: limits that goodput counts by.
        replicas: engines behind the router; None: as many as the deployment has data-parallel
            copies.
        sample_replicas: simulate so many of them whole, drawn by the seed, and say what they tell
            of all, with the interval that this costs; requests are then dealt out in turn or at
            random, and others than theirs are never made. None: simulate all.
        router: which of them takes a request; None: in turn, or by reported load where copies
            exchange tokens.
        report_s: seconds between two reports by which a router knows how many of the requests that
            it has sent to a replica have ended; 0: it always knows. Reported load has its own.
        disaggregation: None: every replica computes prompts and decodes.
        feed_forward: None: every device holds all layers.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    schema_version: Literal[1] = Field(default=1, alias="schema")
    requests: Requests
    deployment: DeploymentSection = DeploymentSection()
    profile: ProfileSection | None = None
    scheduler: SchedulerSection = SchedulerSection()
    speculation: SpeculationSection | None = None
    blocks: BlocksSection | None = None
    slo: LimitsSection = LimitsSection()
    replicas: Replicas | None = None
    sample_replicas: SampledReplicas | None = None
    router: Router | None = None
    report_s: NotNegative = 0.0
    disaggregation: DisaggregationSection | None = None
    feed_forward: FeedForwardSection | None = None

    @model_validator(mode="after")
    def _timed(self) -> ScenarioFile:
        if self.profile is None and not self.deployment.model:
            raise ValueError("deployment.model is needed where no profile times the iterations")
        if self.slo.admission and self.slo.ttft_s is None and self.slo.tpot_s is None:
            raise ValueError("slo.admission needs slo.ttft_s or slo.tpot_s")
        if self.speculation is not None and self.blocks is not None:
            raise ValueError("speculation and blocks are two decoders: choose one")
        if self.feed_forward is not None and self.profile is not None:
            raise ValueError("feed_forward is timed by the cost model, not by a profile")
        d = self.deployment
        alone = d.shared_prefix_tokens or d.host_weights_ratio or d.cache_tokens
        if alone and (d.is_planned or self.profile or self.feed_forward):
            which = "shared_prefix_tokens, host_weights_ratio and cache_tokens"
            raise ValueError(f"{which} of a deployment go with tensor_parallel alone")
        if d.shared_prefix_tokens and self.scheduler.prefix_cache is False:
            raise ValueError("deployment.shared_prefix_tokens needs scheduler.prefix_cache")
        if self.feed_forward is not None and self.deployment.is_planned:
            raise ValueError("feed_forward goes with tensor_parallel alone")
        return self


def read_scenario_sections(path: str | Path) -> dict[str, Any]:
    """The sections of a YAML file, unchecked but for their form; paths in it are taken from its own
    folder.

    Raises:
        InputError: absent, too large, no YAML, or no mapping.
        UnknownNameError: a section that no scenario has.
    """
    import yaml

    try:
        content = yaml.safe_load(read_bounded(path, MAX_SCENARIO_BYTES))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise InputError(f"must be YAML ({str(error).splitlines()[0]})", file=path) from None
    if not isinstance(content, dict):
        raise InputError(
            "must hold sections such as requests and deployment",
            file=path,
            value=type(content).__name__,
        )
    section_names = [field.alias or name for name, field in ScenarioFile.model_fields.items()]
    for name in map(str, content):
        if name not in section_names and name not in ScenarioFile.model_fields:
            raise UnknownNameError("section", name, section_names, file=path, key=name)
    sections = {
        str(key): dict(value) if isinstance(value, dict) else value
        for key, value in content.items()
    }
    for section, key in _PATHS:
        inside = sections.get(section)
        if not isinstance(inside, dict) or not isinstance(inside.get(key), str) or not inside[key]:
            continue
        beside = Path(path).parent / inside[key]
        if key not in _NAMES_TOO or is_place(beside):
            inside[key] = str(beside) if key != "trace" or is_place(beside) else inside[key]
    return sections


def checked_scenario(sections: Mapping[str, Any], file: str | Path | None = None) -> ScenarioFile:
    """Sections as a scenario.

    Example:
        >>> requests = {"count": 100, "rate_per_s": 2.0, "prompt_tokens": 128, "output_tokens": "uniform:16:64"}
        >>> scenario = checked_scenario({"requests": requests, "deployment": {"model": "llama-3.1-8b"}})
        >>> scenario.requests.arrivals, scenario.deployment.device
        ('poisson', 'h100-sxm')

    Args:
        sections: by name.
        file: where they stand, for messages.

    Raises:
        InputError: an unknown key, a missing one or a value out of range, named by its path.
    """
    try:
        return ScenarioFile.model_validate(sections)
    except ValidationError as error:
        raise refusal(error, ScenarioFile, file) from None


def read_scenario(path: str | Path) -> ScenarioFile:
    """Read and check a scenario file.

    Raises:
        InputError: see `read_scenario_sections` and `checked_scenario`.
    """
    return checked_scenario(read_scenario_sections(path), path)
