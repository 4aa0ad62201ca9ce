"""With how many workers does a named launch serve what a row states by width alone?

Launches of InferenceX with workers for prompts, read off its configuration by day. Leaves out
launches that speculate, and what scripts set beside (`simulator.closed_loop.launch_library`).
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from costmodel.parallel.pools import ServingPlan, workers_of
from hardware_profiles.errors import InputError
from simulator.closed_loop.launch_settings import LaunchName

_FILE = Path(__file__).with_name("worker_counts.csv")


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

    def matches(self, plan: ServingPlan) -> bool:
        """Whether workers of a plan are as wide; where neither kind has a width, any plan does."""
        assert plan.prefill is not None
        widths = (self.prefill_devices, self.decode_devices)
        return widths in ((1, 1), (plan.prefill.plan.devices, plan.decode.plan.devices))


def launched_plan(run: Launched) -> ServingPlan | None:
    """The plan of the one launch that a row can mean; None where no launch fits.

    Args:
        run: what the row says.

    Raises:
        InputError: several launches fit.
    """
    launch_key = (run.device, run.engine, run.weights, run.prompt_tokens, run.output_tokens)
    launches = [
        (since, plan)
        for model, key, users, since, plan in _launches()
        if run.model.startswith(model)
        and key == launch_key
        and run.users in users
        and run.matches(plan)
        if run.launch.includes(since)
    ]
    newest = max((since for since, _ in launches), default="")
    plans = {plan for since, plan in launches if since == newest}
    if len(plans) > 1:
        several = " or ".join(sorted(f"{plan.prefill} and {plan.decode}" for plan in plans))
        raise InputError(
            f"the row does not say, and published launches had {several}", key="decode_num_workers"
        )
    return plans.pop() if plans else None


@cache
def _launches() -> list[
    tuple[str, tuple[str, str, str, int, int], frozenset[int], str, ServingPlan]
]:
    with _FILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return [
        (
            row["model"],
            (
                row["device"],
                row["engine"],
                row["format"],
                int(row["prompt_tokens"]),
                int(row["output_tokens"]),
            ),
            frozenset(map(int, row["users"].split())),
            row["since"],
            ServingPlan(prefill=workers_of(row["prefill"]), decode=workers_of(row["decode"])),
        )
        for row in rows
    ]
