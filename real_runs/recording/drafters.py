"""How are the drafters of a recording made, and what are they fitted on?

One maker per name. Bridges and heads are fitted once, kept beside the part file and used again only
if the very same recipe made them. Leaves out what drafters leave in a recording
(`drafters.recorded`, `drafters.observed_heads`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from real_runs.drafters.bridge_fit import (
    FitRecipe,
    bridge_sha256,
    fit_bridge,
    load_bridge,
    save_bridge,
)
from real_runs.drafters.expansion import ExpansionLimits
from real_runs.drafters.heads.fit_data import FitData
from real_runs.drafters.heads.observed_heads import (
    observed_draft_model,
    observed_early_exit,
    observed_layer_skip,
)
from real_runs.drafters.layer_skip import GapLlama, GapRecipe, fit_gap
from real_runs.drafters.lookahead import LookaheadSizes
from real_runs.drafters.observed import (
    cascade_drafter,
    jacobi_drafter,
    lookahead_drafter,
    retrieval_drafter,
)
from real_runs.drafters.recorded import (
    RecordedDrafter,
    early_exit_drafter,
    layer_skip_drafter,
    prompt_lookup_drafter,
    suffix_automaton_drafter,
    token_recycling_drafter,
)
from real_runs.drafters.retrieval import TextStore
from real_runs.models.bridge import Bridge
from real_runs.prompt_set import fit_questions
from real_runs.recording.heads import Heads
from real_runs.recording.options import RecordOptions
from real_runs.recording.session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from traces.kinds.expansions import Expansions

TREE_LEVELS = 8
TREE_WIDTH = 10


def make_drafters(session: Session) -> list[RecordedDrafter]:
    """The drafters that a recording asks for, in its order.

    Args:
        session: the loaded model and what is asked of it.

    Raises:
        InputError: a draft model that cannot be used.
    """
    maker = _Maker(session)
    return [maker.make(name) for name in session.options.drafters]


class _Maker:
    """Makers that share fit text."""

    def __init__(self, session: Session) -> None:
        self._session, self._options, self._model = session, session.options, session.model
        self._limits = None
        if self._options.expansion_nodes:
            width = min(TREE_WIDTH, self._model.config.vocabulary)
            self._limits = ExpansionLimits(
                nodes=self._options.expansion_nodes, depth=TREE_LEVELS, width=width
            )
        self._heads = Heads(session, self._limits)

    def make(self, name: str) -> RecordedDrafter:
        options = self._options
        makers: dict[str, Callable[[], RecordedDrafter]] = {
            "prompt-lookup": lambda: prompt_lookup_drafter(
                options.ngram_sizes, options.most_draft_tokens
            ),
            "suffix-automaton": lambda: suffix_automaton_drafter(
                options.least_match, options.most_draft_tokens
            ),
            "token-recycling": lambda: token_recycling_drafter(
                self._model, options.recycling_nodes
            ),
            "early-exit": self._early_exit,
            "layer-skip": self._layer_skip,
            "draft-model": self._draft_model,
            "feature-head": lambda: self._watching(self._heads.feature_head()),
            "medusa-heads": lambda: self._watching(self._heads.medusa_heads()),
            "hydra": lambda: self._watching(self._heads.hydra_heads()),
            "ppd": lambda: self._watching(self._heads.prompt_tokens(options.prompt_tokens)),
            "lookahead": lambda: lookahead_drafter(self._model, _lookahead_sizes(options)),
            "jacobi": lambda: jacobi_drafter(self._model, options.lookahead[0]),
            "rest": self._rest,
            "cascade": self._cascade,
        }
        return makers[name]()

    def _early_exit(self) -> RecordedDrafter:
        exit_layer, ridge = self._session.setup["exit_layer"], self._options.ridge
        bridge, fitted = self._bridge(
            f"exit{exit_layer}-bridge.safetensors",
            FitRecipe(exit_layer=exit_layer, **self._recipe_values()),
            lambda: fit_bridge(
                self._model, self._fit_sequences, exit_layer=exit_layer, ridge=ridge
            ),
        )
        parameters = {"exit_layer": exit_layer, "layers": self._model.config.layers, **fitted}
        if not self._probabilities_wanted:
            return early_exit_drafter(self._model, bridge, parameters=parameters)
        return self._watching(
            observed_early_exit(self._model, bridge, parameters=parameters, limits=self._limits)
        )

    def _layer_skip(self) -> RecordedDrafter:
        gap, bridge, parameters = self._gap
        if not self._probabilities_wanted:
            return layer_skip_drafter(self._model, gap, bridge, parameters=parameters)
        made = observed_layer_skip(
            self._model, gap, bridge, parameters=parameters, limits=self._limits
        )
        return self._watching(made)

    def _cascade(self) -> RecordedDrafter:
        (start, stop), bridge, parameters = self._gap
        drafter = GapLlama(self._model, start=start, stop=stop, bridge=bridge)
        draft_tokens, inner_tokens = self._options.cascade_tokens
        return cascade_drafter(
            drafter, inner_tokens=inner_tokens, draft_tokens=draft_tokens, parameters=parameters
        )

    def _rest(self) -> RecordedDrafter:
        texts, parameters = self._heads.texts()
        return retrieval_drafter(
            TextStore(texts), nodes=self._options.retrieval_nodes, parameters=parameters
        )

    @cached_property
    def _gap(self) -> tuple[tuple[int, int], Bridge | None, dict[str, Any]]:
        """The span of layers that is left out, what crosses it, and the parameters that say so."""
        start, stop = self._session.setup["skipped_layers"]
        layers, ridge = self._model.config.layers, self._options.ridge
        parameters = {
            "skipped_layers": [start, stop],
            "layers": layers,
            "draft_layers": layers - (stop - start),
        }
        bridge = None
        if self._options.skip_bridge:
            bridge, fitted = self._bridge(
                f"skip{start}-{stop}-bridge.safetensors",
                GapRecipe(exit_layer=start, stop_layer=stop, **self._recipe_values()),
                lambda: fit_gap(
                    self._model, self._fit_sequences, start=start, stop=stop, ridge=ridge
                ),
            )
            parameters |= fitted
        return (start, stop), bridge, parameters

    def _draft_model(self) -> RecordedDrafter:
        from real_runs.drafters.draft_model import load_draft_model

        if self._options.draft_model is None:
            return self._watching(self._heads.draft_model())
        about = self._session.setup["draft_model"]
        draft = load_draft_model(self._options.draft_model, self._model)
        return self._watching(
            observed_draft_model(
                draft, title=about["title"], parameters=dict(about), limits=self._limits
            )
        )

    @property
    def _probabilities_wanted(self) -> bool:
        return self._options.level >= 3 or self._limits is not None

    def _watching(self, observed: RecordedDrafter) -> RecordedDrafter:
        """A drafter whose probabilities are cut down to what is asked for."""
        level, candidates = self._options.level, self._options.candidates

        def observe(*text: Any) -> Mapping[str, NDArray[Any] | Expansions]:
            arrays: dict[str, Any] = dict(observed.observe(*text))
            for name in ("draft_ids", "draft_probs"):
                if level >= 3:
                    arrays[name] = arrays[name][:, :candidates]
                else:
                    del arrays[name]
            return arrays

        return replace(observed, observe=observe)

    @cached_property
    def _fit_data(self) -> FitData:
        return FitData(
            questions=fit_questions(self._session.prompts),
            answers=self._options.fit_answers,
            help_characters=self._options.fit_characters,
            seed=self._options.seed,
        )

    @cached_property
    def _fit_sequences(self) -> list[list[int]]:
        """The text that bridges are fitted on; the model writes its part of it when it is first
        asked for.
        """

        def report(done: int, total: int) -> None:
            self._session.report("fit", done, total, "own answers")

        return self._fit_data.sequences(self._model, self._session.tokenizer, report)

    def _recipe_values(self) -> dict[str, Any]:
        return {
            "model_sha256": self._session.setup["model_sha256"],
            "dtype": self._options.dtype,
            "ridge": self._options.ridge,
            "data": self._fit_data.title,
            "data_sha256": self._fit_data.sha256,
        }

    def _bridge(
        self, file: str, recipe: FitRecipe, fit: Callable[[], Bridge]
    ) -> tuple[Bridge, dict[str, Any]]:
        """A bridge, read from beside the part file if the same recipe made it, and how it was
        made.
        """
        path = Path(self._options.out) / f"{self._session.setup['name']}--{file}"
        bridge = load_bridge(path, recipe)
        if bridge is None:
            bridge = fit()
            save_bridge(bridge, recipe, path)
        return bridge, {
            "ridge": recipe.ridge,
            "fit_data": recipe.data,
            "fit_data_sha256": recipe.data_sha256,
            "fit_tokens": bridge.fit_tokens,
            "bridge_sha256": bridge_sha256(bridge),
        }


def _lookahead_sizes(options: RecordOptions) -> LookaheadSizes:
    window, ngram, guesses = options.lookahead
    return LookaheadSizes(window=window, ngram=ngram, guesses=guesses)
