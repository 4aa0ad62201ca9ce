"""What is a validation of llama.cpp's server asked for?

Leaves out how it is done (`validate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from costmodel.passes.deployment import Fidelity
from real_runs.validation.subject import BenchOptions


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerOptions:
    """What is validated, and how long it may take.

    Attributes:
        bench: folder for answers, caches of prompts, runs and the report, rounds and wall time.
        profile: device profile, by name or TOML file.
        engine: engine that predicts: "llama.cpp", or the engine file of its calibration.
        model: GGUF file of the target, which says its shapes and formats.
        fidelity: of the predictions.
        prompts: prompt file; None: the shipped set.
        slots: requests that are decoded together, each number a server of its own.
        contexts: tokens that prompts are filled up to; none of those that were calibrated.
        per_slots: lookups that were not chosen, for every number of slots.
        draft: GGUF file of a draft model that was cut from the target; None: there is none.
        synthetic: measure the grid of stated acceptance, too.
        max_new_tokens: of every answer.
        threads: of a server.
        binary: a build of `llama-server`; None: what is installed.
        cpu: the CPU that servers stay on; None leaves it to the system.
        seed: of the spread and of draws.
    """

    bench: BenchOptions
    profile: str
    model: Path
    engine: str = "llama.cpp"
    fidelity: Fidelity = "measured"
    prompts: Path | None = None
    slots: tuple[int, ...] = (1, 2, 4)
    contexts: tuple[int, ...] = (256, 1024, 2048)
    per_slots: int = 4
    draft: Path | None = None
    synthetic: bool = False
    max_new_tokens: int = 64
    threads: int = 1
    binary: Path | None = None
    cpu: int | None = None
    seed: int = 0
