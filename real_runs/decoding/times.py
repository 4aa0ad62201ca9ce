"""Where did the time of a step go?

Wall and CPU seconds of a step's phases: draft, verify, and the rest, which is what the loop itself
costs. Leaves out the prefill and what happens inside a pass.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

_PHASES = ("draft", "verify", "rest")


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTimes:
    """Seconds of one step; CPU seconds are those of all threads of the process.

    Attributes:
        draft_s: wall seconds of drafting.
        verify_s: wall seconds of the target's pass.
        rest_s: wall seconds of all else: comparing, moving cache slots, stopping.
        draft_cpu_s: CPU seconds of drafting.
        verify_cpu_s: CPU seconds of the target's pass.
        rest_cpu_s: CPU seconds of all else.
    """

    draft_s: float = 0.0
    verify_s: float = 0.0
    rest_s: float = 0.0
    draft_cpu_s: float = 0.0
    verify_cpu_s: float = 0.0
    rest_cpu_s: float = 0.0

    @property
    def total_s(self) -> float:
        """Wall seconds of the step."""
        return self.draft_s + self.verify_s + self.rest_s


class StepClock:
    """Reads the clocks at the borders of phases; does nothing where no times are wanted.

    Args:
        timed: whether times are wanted.
        device: where the passes run; a CUDA device is waited for at every border.
    """

    def __init__(self, *, timed: bool, device: torch.device) -> None:
        self._timed, self._device = timed, device
        self._spent = {f"{phase}{clock}": 0.0 for phase in _PHASES for clock in ("_s", "_cpu_s")}
        self._last = now(device) if timed else (0.0, 0.0)
        self._steps: list[StepTimes] = []

    def end(self, phase: str) -> None:
        """Add what has passed since the last border to a phase."""
        if not self._timed:
            return
        wall, cpu = now(self._device)
        self._spent[f"{phase}_s"] += wall - self._last[0]
        self._spent[f"{phase}_cpu_s"] += cpu - self._last[1]
        self._last = wall, cpu

    def end_step(self) -> None:
        """Close a step: what has passed since the last border is its rest."""
        if not self._timed:
            return
        self.end("rest")
        self._steps.append(StepTimes(**self._spent))
        self._spent = dict.fromkeys(self._spent, 0.0)

    @property
    def steps(self) -> tuple[StepTimes, ...]:
        """The steps closed so far."""
        return tuple(self._steps)


def now(device: torch.device) -> tuple[float, float]:
    """Wall and process clocks, once the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter(), time.process_time()
