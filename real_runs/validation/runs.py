"""What did decoding some prompts by a configuration take, once, and how is it kept?

One record for every subject of a validation, and the lines of the log that hold it. Leaves out
making runs (`real_runs.trials.make`) and which rounds count (`rounds`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from real_runs.decoding.timed_pass import TimedPass
from real_runs.trials.make import FAILED, TOOK_S

AGAIN = "again"  # key of repeats that are work of their own: each drew an acceptance


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One configuration on the prompts of one group, once.

    Attributes:
        cell: name of the cell.
        configuration: name.
        round: 0, 1, ...
        prompts: ids, several where they ran together.
        tokens: output tokens of all requests, the first ones (of the prefill) left out.
        steps: passes of the target after the prefill.
        request_steps: steps of all requests together: a pass counts once for every request in it.
        drafted_tokens: of all requests.
        decode_s: wall seconds after the prefill.
        cpu_s: process seconds after the prefill.
        draft_s: wall seconds of drafting.
        verify_s: wall seconds of the target's passes.
        passes: of the target after the prefill.
        output_sha256: digest of the output ids.
        prefill_s: of reading the prompts, where this run did; else 0.
        probe_s: the median of one and the same plain pass, timed several times before and after the
            run.
        rounds: runs of the same work that this one stands for.
        ttft_s: from sending a request to its first token, the mean over requests; 0 where nothing
            was sent.
        tpot_s: of a request per output token after the first, the mean over requests; 0 where
            nothing was sent.
        prompt_tokens: of a request, as a server counted them, the mean over requests; 0 where
            nothing was sent.
        counted: steps and draft tokens of every request, as a server counted them; () where nothing
            was sent.
    """

    cell: str
    configuration: str
    round: int
    prompts: tuple[str, ...]
    tokens: int
    steps: int
    request_steps: int
    drafted_tokens: int
    decode_s: float
    cpu_s: float
    draft_s: float
    verify_s: float
    passes: tuple[TimedPass, ...]
    output_sha256: str
    prefill_s: float = 0.0
    probe_s: float = 0.0
    rounds: int = 1
    ttft_s: float = 0.0
    tpot_s: float = 0.0
    prompt_tokens: float = 0.0
    counted: tuple[tuple[int, int], ...] = ()

    @property
    def rest_s(self) -> float:
        """Seconds of all else: comparing, moving cache slots, stopping."""
        return max(self.decode_s - self.draft_s - self.verify_s, 0.0)

    @property
    def process_share(self) -> float:
        """Process time over wall time."""
        return self.cpu_s / self.decode_s

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Run:
        """The run that a line of the log holds.

        Raises:
            KeyError: a line without prompts or passes.
            TypeError: a line with other keys than those of a run.
        """
        values = dict(entry)
        values["prompts"] = tuple(values["prompts"])
        values["counted"] = tuple(
            (int(steps), int(drafted)) for steps, drafted in values.get("counted", ())
        )
        values["passes"] = tuple(
            TimedPass(int(b), int(n), int(c), float(s)) for b, n, c, s in values["passes"]
        )
        return cls(**values)


def runs_of(entries: Sequence[Mapping[str, Any]]) -> list[Run]:
    """Every run that a log holds, repeats that are work of their own among them."""
    return [
        Run.from_json(
            {key: value for key, value in entry.items() if key not in (AGAIN, TOOK_S)}
            | dict(repeat)
        )
        for entry in entries
        if FAILED not in entry
        for repeat in ({}, *entry.get(AGAIN, ()))
    ]
