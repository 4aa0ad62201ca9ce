"""What is peculiar to a masked model whose settings are run beside their predictions?

Leaves out recording anchors and choosing by floors of agreement (`validate`), and the steps that
all subjects take alike (`real_runs.validation.bench`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from real_runs.models.processor import cpu_title
from real_runs.training import module_sha256
from real_runs.validation.cells import ValidationCell
from real_runs.validation.masked.decoder import MaskedDecoder
from real_runs.validation.masked.predict import Foretold, PassCosts, fit_costs, foretold
from real_runs.validation.masked.settings import CanvasSetting
from real_runs.validation.predict import Prediction
from real_runs.validation.rounds import pooled, steadied, undisturbed
from real_runs.validation.runs import Run
from real_runs.validation.score import Groups
from real_runs.validation.subject import Place, Plan, UnscoredError, in_turn
from traces.replay.confidence.anchors import Anchors

_LEAST_SHARE = 0.5  # of a cell's batches that must have run undisturbed
_RECORDER = "rooftree-validate-masked 1"


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedPredictor:
    """What settings should take, from anchors of other prompts.

    Attributes:
        anchors: by cache.
        fitted: costs of forwards and rules.
        prompt_tokens: of every prompt.
        replays: keeps what the anchors say, by batch and setting.
    """

    anchors: Mapping[str, Anchors]
    fitted: PassCosts
    prompt_tokens: int
    replays: dict[tuple[int, str], Foretold]

    @property
    def costs(self) -> Mapping[str, object]:
        """The costs as JSON values."""
        return self.fitted.as_json()

    def __call__(
        self, cell: ValidationCell, configuration: CanvasSetting, runs: Sequence[Run]
    ) -> Groups:
        """The batches that ran, beside the mean batch of anchors' prompts.

        Raises:
            UnscoredError: too few batches, or a forward that was not timed.
            InputError: anchors that cannot answer.
        """
        if len(runs) < _LEAST_SHARE * len(cell.groups):
            rule = f"{len(runs)} of {len(cell.groups)} batches ran undisturbed"
            raise UnscoredError(rule)
        plain = self.anchors["none"]
        replay = foretold(
            self.anchors[configuration.policy.cache],
            plain.final_ids[_one_token_runs(plain)],
            configuration,
            cell.batch,
            self.fitted,
            prompt_tokens=self.prompt_tokens,
        )
        self.replays[cell.batch, configuration.name] = replay
        prediction = Prediction(
            run=replay.run, spread_ratio=replay.spread_ratio(self.fitted, len(runs))
        )
        return {run.prompts: ([run], prediction) for run in runs}


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedCanvases:
    """Canvases of the small masked model as a bench runs them.

    Attributes:
        plan: cells and settings.
        decoder: model and prompts.
        anchors: by cache.
        keep_disturbed: runs that other processes disturbed count, too.
        stated: what was asked for, for the report.
        replays: what the anchors say, by batch and setting, of all that was predicted.
    """

    plan: Plan[CanvasSetting]
    decoder: MaskedDecoder
    anchors: Mapping[str, Anchors]
    keep_disturbed: bool = False
    stated: Mapping[str, Any] = field(default_factory=dict)
    replays: dict[tuple[int, str], Foretold] = field(default_factory=dict)

    @property
    def setup(self) -> Mapping[str, Any]:
        """What runs depend on."""
        return self._identity | {"prompts": list(self.decoder.prompts)}

    @property
    def about(self) -> Mapping[str, Any]:
        """Provenance."""
        recipe = self.decoder.recipe
        return self._identity | {
            "model": (
                f"masked diffusion, {recipe.layers} layers of width {recipe.width}, {recipe.steps}"
                " steps"
            ),
            "profile": "forwards timed on other prompts",
            "fidelity": "measured",
            **self.stated,
            "acceptance": "real; predicted passes replay anchors of other prompts",
        }

    @property
    def _identity(self) -> dict[str, Any]:
        return {
            "recorder": _RECORDER,
            "model_sha256": module_sha256(self.decoder.model),
            "dataset_sha256": self.decoder.recipe.corpus.sha256,
            "device": cpu_title(),
            "threads": 1,
            "torch": torch.__version__,
            "dtype": "float32",
        }

    def launches(self, rounds: int) -> Sequence[Sequence[Place[CanvasSetting]]]:
        """All in one process, the settings of a cell in turn."""
        return in_turn(self.plan, rounds)

    def launch(self, configuration: CanvasSetting) -> AbstractContextManager[MaskedDecoder]:
        """The model of this process, whichever setting comes first."""
        return nullcontext(self.decoder)

    def counted(self, runs: Sequence[Run]) -> list[Run]:
        """Runs that count, in the machine's usual state, their rounds pooled."""
        return pooled(steadied(runs if self.keep_disturbed else undisturbed(runs)))

    def predictor(self, counted: Sequence[Run]) -> MaskedPredictor:
        """Predicts replayed anchors, with costs of forwards and rules."""
        fits = {
            (cell.name, setting.name): (setting.policy.commit, cell.batch)
            for cell, setting in self.plan.fitted
        }
        runs = [
            (*fits[run.cell, run.configuration], run)
            for run in counted
            if (run.cell, run.configuration) in fits
        ]
        if not runs:
            rule = "no undisturbed run to fit costs on; raise it, or quiet the machine"
            raise InputError(rule, key="--budget")
        return MaskedPredictor(
            anchors=self.anchors,
            fitted=fit_costs(runs),
            prompt_tokens=self.decoder.recipe.prompt_tokens,
            replays=self.replays,
        )

    def differs(self, configuration: CanvasSetting, run: Run) -> bool:
        """No: no text was recorded."""
        return False


def _one_token_runs(states: Anchors) -> NDArray[np.int64]:
    """Every prompt's run of one token a pass."""
    policy = next(candidate for candidate in states.policies if candidate.commit == "static")
    runs = states.run_of(policy)
    if runs is None:
        raise InputError("holds no run of one token a pass for every prompt", key="policies")
    return runs
