"""How do the scripts of a benchmark launch an engine and load it?

A benchmark has a load pattern and, for one engine, family of models, kind of device, format and
time, settings. A question names both: `inferencex-2026-03` is InferenceX as its scripts stood at
the end of that month. Leaves out the settings themselves (`simulator.closed_loop.launch_library`),
and what no script sets, which keeps the engine's default.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hardware_profiles.errors import UnknownNameError

Scripts = Literal["inferencex", "aiconfigurator"]

# SemiAnalysisAI/InferenceX (once InferenceMAX), .github/workflows and configs: RANDOM_RANGE_RATIO
# 0.8 with these pairs of (ISL, OSL) throughout; utils/bench_serving draws both lengths evenly from
# 0.8 of them to all of them
RANGE_SPREAD = 0.2
RANGE_LENGTHS = ((1024, 1024), (1024, 8192), (8192, 1024))


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadPattern:
    """How a benchmark loads the engine that it launched.

    Args:
        length_spread: as in `simulator.closed_loop.users.Users`.
        random_ids: prompts are token ids drawn at random, not text.
        warmed: a burst before the measured one has run every batch size.
        sampling_defaults: requests carry no sampling parameters, so that the model's own hold.
        source: what was read.
    """

    length_spread: float
    random_ids: bool
    warmed: bool
    sampling_defaults: bool
    source: str


LOAD_PATTERNS: Mapping[Scripts, LoadPattern] = {
    "inferencex": LoadPattern(
        length_spread=RANGE_SPREAD,
        random_ids=True,
        warmed=False,
        sampling_defaults=False,
        source="utils/bench_serving: random token ids, all users at once, temperature 0",
    ),
    "aiconfigurator": LoadPattern(
        length_spread=0.0,
        random_ids=False,
        warmed=True,
        sampling_defaults=True,
        source="ai-dynamo/dynamo benchmark scripts: --warmup-request-count 2 a user, no sampling",
    ),
}
_NAME = re.compile(r"(inferencex|aiconfigurator)(?:-(20\d\d-\d\d(?:-\d\d)?))?")


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchName:
    """A launch as a question names it.

    Args:
        scripts: of which benchmark.
        day: or month, ISO, at whose end the scripts are meant; None: the newest that were read.
    """

    scripts: Scripts
    day: str | None = None

    def __str__(self) -> str:
        return f"{self.scripts}-{self.day}" if self.day else self.scripts

    @property
    def load(self) -> LoadPattern:
        """How it loads the engine."""
        return LOAD_PATTERNS[self.scripts]

    def includes(self, since: str) -> bool:
        """Whether a script that begins on a day, ISO, had begun."""
        return self.day is None or since[: len(self.day)] <= self.day


def read_launch(name: str) -> LaunchName:
    """The launch that a name means.

    Args:
        name: of a benchmark, with a month or a day where its scripts are not the newest.

    Raises:
        UnknownNameError: no benchmark of that name.

    >>> str(read_launch("inferencex-2026-03")), read_launch("aiconfigurator").day
    ('inferencex-2026-03', None)
    """
    match = _NAME.fullmatch(name.strip().casefold())
    if match is None:
        raise UnknownNameError("launch", name[:80], [*LOAD_PATTERNS, "inferencex-2026-03"])
    return LaunchName(scripts=match[1], day=match[2])  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchWait:
    """TensorRT-LLM's wait for more prompts, which InferenceX switches on for its short requests
    alone.

    Args:
        iterations: batch_wait_timeout_iters.
        ratio: batch_wait_max_tokens_ratio.
        users: fewest users with it.
        devices: fewest devices without it; None: any number has it.
        lengths: (ISL, OSL) with it.
    """

    iterations: int
    ratio: float
    users: int = 1
    devices: int | None = None
    lengths: tuple[int, int] = RANGE_LENGTHS[0]

    def holds(self, *, lengths: tuple[int, int], users: int, devices: int) -> bool:
        """Whether a run with so many users on so many devices waits."""
        return (
            lengths == self.lengths
            and users >= self.users
            and (self.devices is None or devices < self.devices)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptLimits:
    """Limits of a worker that computes prompts alone; its copies of attention share them evenly.

    Args:
        token_budget: query tokens of an iteration.
        max_requests: most requests in flight.
    """

    token_budget: int
    max_requests: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchSettings:
    """What a benchmark's scripts set for an engine; None and False: what the engine does by default.

    Args:
        scripts: of which benchmark.
        engine: as the library of engines names it.
        models: beginnings of the names of models; empty for all others.
        devices: beginnings of the names of devices; empty for all others.
        precision: a table's word for the format of the weights; None for all others.
        since: first day, ISO; the scripts before it set what the entry before this one says.
        token_budget: least limit of the query tokens of an iteration.
        prompts: the limit holds so many prompts,
        beyond: and so many tokens,
        beyond_users: and one for every user, and for each of their drafts.
        whole_prompts: the limit is filled by whole prompts where it lies below the engine's own.
        max_requests: most requests in flight; None: all users.
        memory_ratio: share of the memory that the engine or its cache is given.
        cache: number format of keys and values.
        release: of the engine that the scripts ran.
        overlapped_scheduling: it is switched on.
        wait: for more prompts.
        rank_wait: iterations for which prompts wait until every one of several ranks has one to
            compute.
        receives: (fewest users, iterations that only decode between two looks for new requests),
            rising.
        copies: (ISL, OSL) with the fewest users from which on every device keeps attention of its
            own.
        drafts: draft tokens of a launch that speculates: without copies of attention, and with
            them; None: it does not say.
        prompt_limits: of workers for prompts alone: without copies of attention, and with them;
            None: the engine's own.
        sends: users of the load generator whatever the most requests are, which a row with so many
            then does not say.
        source: what was read, with its day.
    """

    scripts: Scripts
    engine: str
    models: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    precision: str | None = None
    since: str = ""
    token_budget: int | None = None
    prompts: int = 0
    beyond: int = 0
    beyond_users: bool = False
    whole_prompts: bool = False
    max_requests: int | None = None
    memory_ratio: float | None = None
    cache: str | None = None
    release: str | None = None
    overlapped_scheduling: bool = False
    wait: BatchWait | None = None
    rank_wait: int = 0
    receives: tuple[tuple[int, int], ...] = ()
    copies: tuple[tuple[tuple[int, int], int], ...] = ()
    drafts: tuple[int, int] | None = None
    prompt_limits: tuple[PromptLimits, PromptLimits] | None = None
    sends: int | None = None
    source: str

    def copied(self, *, lengths: tuple[int, int], users: int) -> bool:
        """Whether a run of such requests with so many users has attention copied."""
        return any(lengths == these and users >= fewest for these, fewest in self.copies)

    @property
    def subject(self) -> tuple[bool, bool, bool]:
        """How closely it says where it holds: a model counts for more than a device, which beats a
        format.
        """
        return bool(self.models), bool(self.devices), bool(self.precision)

    def holds(self, *, model: str, device: str, precision: str | None) -> bool:
        """Whether it speaks of such a launch, on one day or another."""
        return (
            (not self.models or model.startswith(self.models))
            and (not self.devices or device.startswith(self.devices))
            and self.precision in (None, precision)
        )
