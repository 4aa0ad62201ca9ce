"""What do the scripts set that publishers of tables launch engines with?

A habit is what they set for one engine, family of models, kind of device, format and time. Leaves
out the entries themselves (`simulator.closed_loop.published`), what no script sets, which keeps the
engine's default, and who published a row (`simulator.closed_loop.launches`).
"""

from dataclasses import dataclass
from typing import Literal

Publisher = Literal["inferencex", "generator"]

# SemiAnalysisAI/InferenceX (once InferenceMAX), .github/workflows and configs: RANDOM_RANGE_RATIO
# 0.8 with these pairs of (ISL, OSL) throughout; utils/bench_serving draws both lengths evenly from
# 0.8 of them to all of them
RANGE_SPREAD = 0.2
RANGE_LENGTHS = ((1024, 1024), (1024, 8192), (8192, 1024))


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
class Habit:
    """What a publisher's scripts set for an engine; None and False: what the engine does by
    default.

    Args:
        publisher: whose scripts.
        engine: as the library of engines names it.
        models: beginnings of the names of models; empty for all others.
        devices: beginnings of the names of devices; empty for all others.
        precision: a table's word for the format of the weights; None for all others.
        since: first day, ISO; the scripts before it set what the entry before this one says.
        token_budget: least limit of the query tokens of an iteration.
        prompts: the limit holds so many prompts,
        beyond: and so many tokens,
        beyond_users: and one for every user.
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
        sends: users of the load generator whatever the most requests are, which a row with so many
            then does not say.
        source: what was read, with its day.
    """

    publisher: Publisher
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
