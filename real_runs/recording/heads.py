"""How are trained drafters made for a recording?

Heads and a draft model learn from one text, which the target writes, and are kept beside the part
file. Leaves out the training itself (`drafters.head_store`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from real_runs.drafters.expansion import ExpansionLimits
from real_runs.drafters.heads.head_data import HeadData
from real_runs.drafters.heads.head_store import (
    DRAFT_TRAINING,
    FEATURE_TRAINING,
    HYDRA_TRAINING,
    MEDUSA_TRAINING,
    PROMPT_TRAINING,
    HeadStore,
)
from real_runs.drafters.heads.head_training import HeadTraining
from real_runs.drafters.heads.observed_heads import (
    observed_draft_model,
    observed_feature_head,
    observed_hydra_heads,
    observed_medusa_heads,
    observed_prompt_tokens,
)
from real_runs.drafters.recorded import RecordedDrafter
from real_runs.prompt_set import fit_questions
from real_runs.recording.session import Session

_Training = TypeVar("_Training", bound=HeadTraining)


class Heads:
    """Trained drafters of one recording.

    Args:
        session: the loaded model and what is asked of it.
        limits: of the trees that are kept per position; None: none are.
    """

    def __init__(self, session: Session, limits: ExpansionLimits | None) -> None:
        options = session.options
        self._options, self._model, self._limits = options, session.model, limits
        self._store = HeadStore(
            model=session.model,
            tokenizer=session.tokenizer,
            model_sha256=session.setup["model_sha256"],
            data=HeadData(
                questions=fit_questions(session.prompts),
                rows=options.head_rows,
                row_tokens=options.head_row_tokens,
                seed=options.seed,
            ),
            folder=options.out,
            name=session.setup["name"],
            report=lambda what, done, total: session.report(
                what.split(",", maxsplit=1)[0], done, total, what
            ),
        )

    def feature_head(self) -> RecordedDrafter:
        """The one-layer head, trained or read."""
        head, parameters = self._store.feature_head(self._asked(FEATURE_TRAINING))
        return observed_feature_head(self._model, head, parameters=parameters, limits=self._limits)

    def medusa_heads(self) -> RecordedDrafter:
        """The independent heads, trained or read."""
        heads, parameters = self._store.medusa_heads(self._asked(MEDUSA_TRAINING))
        return observed_medusa_heads(self._model, heads, parameters=parameters, limits=self._limits)

    def texts(self) -> tuple[list[list[int]], dict[str, Any]]:
        """Texts for a store, written or read, and the parameters that say which."""
        return self._store.texts()

    def hydra_heads(self) -> RecordedDrafter:
        """Heads that read drafted tokens, trained or read."""
        heads, parameters = self._store.hydra_heads(self._asked(HYDRA_TRAINING))
        return observed_hydra_heads(self._model, heads, parameters=parameters, limits=self._limits)

    def prompt_tokens(self, count: int) -> RecordedDrafter:
        """Prompt tokens, trained or read."""
        prompts, parameters = self._store.prompt_tokens(self._asked(PROMPT_TRAINING), count=count)
        return observed_prompt_tokens(
            self._model, prompts, parameters=parameters, limits=self._limits
        )

    def draft_model(self) -> RecordedDrafter:
        """A small model made out of the target, trained or read."""
        draft, parameters = self._store.draft_model(self._asked(DRAFT_TRAINING))
        title = f"{draft.config.layers}-layer model trained on the target's own text"
        return observed_draft_model(draft, title=title, parameters=parameters, limits=self._limits)

    def _asked(self, training: _Training) -> _Training:
        steps = self._options.head_steps
        return training if steps is None else replace(training, steps=steps)
