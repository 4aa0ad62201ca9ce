"""How was the engine behind a row of a table launched, and how was it loaded?

By the launch that the row or the question names, and by what the row itself states; without a name
by the engine's defaults. Leaves out what named launches set (`simulator.closed_loop.launch_library`)
and options that no table and no script states.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from costmodel.engines.record.engine import Engine
from costmodel.parallel.plan import ParallelPlan
from costmodel.parallel.pools import ServingPlan
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.profile import Device
from simulator.closed_loop.launch_library import settings_of
from simulator.closed_loop.launch_settings import (
    LaunchName,
    LaunchSettings,
    PromptLimits,
    read_launch,
)
from simulator.closed_loop.sampling import cuts_by_default
from simulator.closed_loop.users import TEXT_TOKEN_S, random_token_s

_CACHES = {
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "bf16": "bf16",
    "bfloat16": "bf16",
    "float16": "bf16",
    "fp16": "bf16",
}
_DYNAMO_IMAGES = "nvcr.io/nvidia/ai-dynamo/"


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchedRow:
    """What a row says of the run behind it.

    Args:
        users: requests in flight.
        batch: largest batch that the row states.
        prompt_tokens: nominal.
        output_tokens: nominal.
        launch: by whose scripts the engine was started and loaded; None: by its defaults.
        precision: the row's word for the format of the weights.
        devices: that share the model.
        ranks: of an engine that computes prompts, each with requests of its own.
        prompt_ranks: of a worker that computes prompts alone; 0: none does. Limits of those that
            decode beside such workers were not read.
        token_budget: most query tokens of an iteration, where the row says.
        max_requests: most requests in flight, where it says.
        cache: number format of keys and values, where it says.
        speculates: requests draft.
    """

    users: int
    batch: int | None = None
    prompt_tokens: int
    output_tokens: int
    launch: LaunchName | None = None
    precision: str | None = None
    devices: int = 1
    ranks: int = 1
    prompt_ranks: int = 0
    token_budget: int | None = None
    max_requests: int | None = None
    cache: str | None = None
    speculates: bool = False

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "LaunchedRow":
        """What the columns of a row say (`simulator.closed_loop.columns`).

        Raises:
            InputError: no load. A deployment of Dynamo's may have many engines, so that the batch
                that one of them takes at most tells nothing of it.
            UnknownNameError: no such launch, or no such format of a cache.
        """
        dynamo = _plain(row["image"]).startswith(_DYNAMO_IMAGES)
        users = row["concurrency"] or (None if dynamo else row["batch_size"])
        if not users:
            raise InputError("the row does not say", key="concurrency")
        return cls(
            users=users,
            batch=row["batch_size"],
            prompt_tokens=row["isl"],
            output_tokens=row["osl"],
            launch=read_launch(row["launch"]) if row["launch"] else None,
            precision=(row["precision"] or "").casefold() or None,
            devices=row["tp_size"] or 1,
            token_budget=row["max_num_batched_tokens"] or None,
            max_requests=row["max_num_seqs"] or None,
            cache=_cache_format(row["kv_cache_dtype"]),
            speculates=(row["speculation"] or "none").casefold() != "none",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """An engine as it was launched, and how far lengths of requests vary.

    Args:
        engine: with the settings it was launched with.
        prompts: the same as workers are set that compute prompts alone.
        cache: number format of keys and values that was asked for; None: what the engine chooses.
        length_spread: as in `Users`.
        tokenise_s: the same.
        cold: the same.
        cuts: requests are sampled by top-k or top-p, as the model's defaults ask.
        copied: every device kept attention of its own, whatever the row says.
        drafts: as in `LaunchSettings`.
    """

    engine: Engine
    prompts: Engine
    cache: str | None = None
    length_spread: float = 0.0
    tokenise_s: float = TEXT_TOKEN_S
    cold: bool = False
    cuts: bool = False
    copied: bool = False
    drafts: tuple[int, int] | None = None

    def draft_tokens(self, worker: ParallelPlan) -> int | None:
        """Draft tokens K of a launch that speculates; None: it does not say.

        Args:
            worker: that decodes.
        """
        return None if self.drafts is None else self.drafts[worker.data > 1]

    def spread(self, plan: ServingPlan) -> ServingPlan:
        """The plan of a row as it was launched; the launch's script, not the row, says that
        attention was copied.
        """
        worker = plan.decode.plan
        if not self.copied or plan.prefill is not None or worker.data > 1:
            return plan
        copied = replace(worker, tensor=1, data=worker.tensor, expert=worker.tensor)
        return replace(plan, decode=replace(plan.decode, plan=copied))


def launched(engine: Engine, row: LaunchedRow, *, model: str, device: Device) -> Launch:
    """The launch behind a row of a table: what the row states, else what the launch that it names
    sets, else defaults.

    Args:
        engine: with its defaults on the device, which stay where nothing else is known.
        row: of the table.
        model: its name.
        device: it ran on.

    Raises:
        InputError: the engine's scheduler is not known, or the row leaves open how many requests it
            took.

    >>> from costmodel.engine_library import load_engine
    >>> from hardware_profiles.loader import load_device
    >>> h100 = load_device("h100-sxm")
    >>> row = LaunchedRow(users=8, batch=8, prompt_tokens=2048, output_tokens=128,
    ...                   launch=read_launch("aiconfigurator"))
    >>> launch = launched(load_engine("trtllm").on(h100), row, model="llama-3.1-8b", device=h100)
    >>> launch.engine.scheduling.token_budget
    3556
    """
    launch = _scripted(engine, row, model=model, device=device)
    usual = launch.engine.scheduling
    started = replace(
        usual,
        token_budget=row.token_budget or usual.token_budget,
        max_requests=row.max_requests or usual.max_requests,
    )
    return replace(
        launch, engine=replace(launch.engine, started=started), cache=row.cache or launch.cache
    )


def _scripted(engine: Engine, row: LaunchedRow, *, model: str, device: Device) -> Launch:
    """The launch by the scripts that a row names, whatever limits it states."""
    if row.launch is None:
        return Launch(engine=engine, prompts=engine)
    load = row.launch.load
    launch = Launch(
        engine=engine,
        prompts=engine,
        length_spread=load.length_spread,
        tokenise_s=random_token_s(model) if load.random_ids else TEXT_TOKEN_S,
        cold=not load.warmed,
        cuts=load.sampling_defaults and cuts_by_default(model),
    )
    settings = settings_of(
        row.launch,
        engine=engine.name,
        model=model,
        device=device.name,
        precision=row.precision,
    )
    if settings is None:
        return launch
    if row.users == settings.sends:
        rule = (
            f"{row.launch} sends {settings.sends} requests at once under a limit that the row"
            " leaves out"
        )
        raise InputError(rule, key="batch_size", value=row.batch)
    if settings.release:
        engine = engine.on(device, settings.release)
    copied = settings.copied(lengths=(row.prompt_tokens, row.output_tokens), users=row.users)
    if copied:
        row = replace(row, ranks=max(row.ranks, row.devices))
    return replace(
        launch,
        engine=engine if row.prompt_ranks else _set(engine, settings, row),
        prompts=_limited(engine, settings.prompt_limits, row.prompt_ranks),
        cache=settings.cache,
        copied=copied,
        drafts=settings.drafts,
    )


def _cache_format(name: str | None) -> str | None:
    """A cache's format as engines spell it; None: the engine chooses."""
    if name is None or name.casefold() == "auto":
        return None
    if name.casefold() not in _CACHES:
        raise UnknownNameError("cache format", name, ["auto", *_CACHES])
    return _CACHES[name.casefold()]


def _plain(image: str | None) -> str:
    """An image in lower case and with slashes alone."""
    return (image or "").casefold().replace("#", "/")


def _limited(
    engine: Engine, limits: tuple[PromptLimits, PromptLimits] | None, ranks: int
) -> Engine:
    """The engine with the limits of a rank that computes prompts alone; 0 ranks: none does."""
    if limits is None or not ranks:
        return engine
    own = limits[ranks > 1]
    scheduler = replace(
        engine.scheduling,
        token_budget=max(own.token_budget // ranks, 1),
        max_requests=max(own.max_requests // ranks, 1),
    )
    return replace(engine, started=scheduler)


def _set(engine: Engine, settings: LaunchSettings, row: LaunchedRow) -> Engine:
    """The engine with what a launch sets."""
    usual, memory = engine.scheduling, engine.memory
    batch = (row.batch or row.users) if settings.beyond_users else 0
    if row.speculates and settings.drafts is not None:
        batch *= 1 + settings.drafts[row.ranks > 1]
    scripted_tokens = (
        settings.prompts * row.prompt_tokens + settings.beyond + batch if settings.prompts else 0
    )
    tokens = max(settings.token_budget or 0, scripted_tokens)
    if not settings.whole_prompts:
        scheduler = replace(usual, token_budget=tokens or usual.token_budget)
    else:
        scheduler = (
            replace(usual, token_budget=tokens, chunked_prefill=False)
            if tokens < usual.token_budget
            else usual
        )
    if settings.scripts == "inferencex":
        scheduler = replace(
            scheduler,
            max_requests=min(settings.max_requests or row.users, row.users),
            overlapped_scheduling=usual.overlapped_scheduling or settings.overlapped_scheduling,
        )
    wait, lengths = settings.wait, (row.prompt_tokens, row.output_tokens)
    if wait and wait.holds(lengths=lengths, users=row.users, devices=row.devices):
        scheduler = replace(scheduler, wait_iterations=wait.iterations, wait_ratio=wait.ratio)
    if settings.rank_wait and row.ranks > 1:
        ratio = min(row.prompt_tokens / scheduler.token_budget, 1.0)
        scheduler = replace(scheduler, wait_iterations=settings.rank_wait, wait_ratio=ratio)
    looks = [iterations for users, iterations in settings.receives if users <= row.users]
    if looks:
        scheduler = replace(scheduler, receive_iterations=looks[-1])
    if settings.memory_ratio is not None:
        memory = replace(memory, ratio=settings.memory_ratio, reserved_bytes=0.0)
    return replace(engine, started=scheduler, memory=memory)
