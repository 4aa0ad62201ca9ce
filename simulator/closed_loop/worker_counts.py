"""With how many workers does a named launch serve what a row states by width alone?

Launches of InferenceX with workers for prompts, read off its configuration by day. Leaves out
launches that speculate, and what scripts set beside (`simulator.closed_loop.launch_library`).
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from pathlib import Path

from costmodel.parallel.pools import ServingPlan, workers_of
from hardware_profiles.errors import InputError
from simulator.closed_loop.launch_settings import LaunchName

_FILE = Path(__file__).with_name("worker_counts.csv")


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedLaunch:
    """A launch with workers for prompts.

    Args:
        model: the beginning of its name.
        device: its name.
        engine: its name.
        weights: number format of the experts.
        prompt_tokens: nominal.
        output_tokens: nominal.
        users: requests in flight, of every run.
        since: day from which on it was launched so.
        plan: workers for prompts and workers that decode.
    """

    model: str
    device: str
    engine: str
    weights: str
    prompt_tokens: int
    output_tokens: int
    users: frozenset[int]
    since: str
    plan: ServingPlan


@dataclass(frozen=True, kw_only=True, slots=True)
class Launched:
    """What a row says of a service whose workers it does not count.

    Args:
        model: its name.
        device: its name.
        engine: its name.
        weights: number format of the experts.
        prompt_tokens: nominal.
        output_tokens: nominal.
        users: requests in flight.
        prefill_devices: of one worker for prompts; 1 where tables state no width at all.
        decode_devices: of one worker that decodes; 1 where tables state no width at all.
        launch: whose scripts are meant.
    """

    model: str
    device: str
    engine: str
    weights: str
    prompt_tokens: int
    output_tokens: int
    users: int
    prefill_devices: int
    decode_devices: int
    launch: LaunchName

    def is_of(self, launch: PublishedLaunch) -> bool:
        """Whether a launch served the row: its workers are as wide, or the row states no width."""
        assert launch.plan.prefill is not None
        place = attrgetter("device", "engine", "weights", "prompt_tokens", "output_tokens")
        widths = (self.prefill_devices, self.decode_devices)
        return (
            self.model.startswith(launch.model)
            and place(self) == place(launch)
            and self.users in launch.users
            and widths
            in ((1, 1), (launch.plan.prefill.plan.devices, launch.plan.decode.plan.devices))
            and self.launch.includes(launch.since)
        )


def launched_plan(run: Launched) -> ServingPlan | None:
    """The plan of the one launch that a row can mean; None where no launch fits.

    Args:
        run: what the row says.

    Raises:
        InputError: several launches fit.
    """
    launches = [launch for launch in published_launches() if run.is_of(launch)]
    newest = max((launch.since for launch in launches), default="")
    plans = {launch.plan for launch in launches if launch.since == newest}
    if len(plans) > 1:
        several = " or ".join(sorted(f"{plan.prefill} and {plan.decode}" for plan in plans))
        raise InputError(
            f"the row does not say, and published launches had {several}", key="decode_num_workers"
        )
    return plans.pop() if plans else None


@cache
def published_launches() -> tuple[PublishedLaunch, ...]:
    """Launches of InferenceX that have workers for prompts."""
    with _FILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return tuple(
        PublishedLaunch(
            model=row["model"],
            device=row["device"],
            engine=row["engine"],
            weights=row["format"],
            prompt_tokens=int(row["prompt_tokens"]),
            output_tokens=int(row["output_tokens"]),
            users=frozenset(map(int, row["users"].split())),
            since=row["since"],
            plan=ServingPlan(prefill=workers_of(row["prefill"]), decode=workers_of(row["decode"])),
        )
        for row in rows
    )
