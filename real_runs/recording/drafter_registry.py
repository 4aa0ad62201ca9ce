"""Which drafter stands behind a name, ready to decode with?

One table from names to makers, for loops that run drafters for real. What a drafter has to be
fitted on is fitted once and kept in a folder. Leaves out drafters that only watch a recording
(`drafters.recorded`) and the loops (`decoding`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardware_profiles.errors import UnknownNameError
from real_runs.drafters.bridge_fit import FitRecipe, fit_bridge, load_bridge, save_bridge
from real_runs.drafters.cascade import Cascade
from real_runs.drafters.draft_model import DraftModelReader, load_draft_model
from real_runs.drafters.early_exit import EarlyExit
from real_runs.drafters.heads.feature_head import FeatureHeadReader
from real_runs.drafters.heads.fit_data import FitData
from real_runs.drafters.heads.head_data import HeadData
from real_runs.drafters.heads.head_store import HeadStore
from real_runs.drafters.heads.hydra_heads import HydraReader
from real_runs.drafters.heads.medusa_heads import MedusaReader
from real_runs.drafters.layer_skip import GapLlama, GapRecipe, LayerSkip, default_gap, fit_gap
from real_runs.drafters.prompt_lookup import PromptLookup
from real_runs.drafters.retrieval import RetrievedChain, TextStore
from real_runs.drafters.suffix_automaton import SuffixAutomaton
from real_runs.drafters.token_recycling import TokenRecycling
from real_runs.models.bridge import Bridge
from real_runs.prompt_set import PromptSet, fit_questions
from real_runs.recording.options import RecordOptions
from traces.kinds.tree import chain_tree

if TYPE_CHECKING:
    from real_runs.decoding.drafting import NodeReader, Proposer, TreeProposer
    from real_runs.models.cache import KVCache
    from real_runs.models.llama import Llama
    from real_runs.models.loading.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Target:
    """A model to decode with, and what its drafters are made from.

    Attributes:
        model: the target.
        tokenizer: its tokenizer.
        sha256: digest of its weights.
        options: of the drafters: n-gram sizes, exit layer, skipped layers, and what bridges are
            fitted on.
        prompts: what is decoded; no bridge is fitted on them.
        folder: keeps what was fitted.
    """

    model: Llama
    tokenizer: Tokenizer
    sha256: str
    options: RecordOptions
    prompts: PromptSet
    folder: Path

    @cached_property
    def fit_texts(self) -> FitData:
        """What bridges are fitted on."""
        return FitData(
            questions=fit_questions(self.prompts),
            answers=self.options.fit_answers,
            help_characters=self.options.fit_characters,
            seed=self.options.seed,
        )

    @cached_property
    def fit_sequences(self) -> list[list[int]]:
        """The token ids of that text; the model writes its part of it at the first call."""
        return self.fit_texts.sequences(self.model, self.tokenizer)

    @cached_property
    def heads(self) -> HeadStore:
        """Trains heads and draft models, or reads those that it trained before."""
        options = self.options
        data = HeadData(
            questions=fit_questions(self.prompts),
            rows=options.head_rows,
            row_tokens=options.head_row_tokens,
            seed=options.seed,
        )
        return HeadStore(
            model=self.model,
            tokenizer=self.tokenizer,
            model_sha256=self.sha256,
            data=data,
            folder=self.folder,
            name="target",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopDrafter:
    """A drafter as decoding loops need it; what it makes serves one request.

    Attributes:
        title: in words.
        chain: makes a proposer of chains; None where it drafts trees alone.
        tree: makes a proposer of trees, whose attribute `learn`, if it has one, wants the target's
            answers; None where it drafts chains alone.
        reader: makes what reads single nodes of a tree, for drafts that are drawn and trees that
            change from step to step; None where the drafter runs no network.
    """

    title: str
    chain: Callable[[], Proposer] | None = None
    tree: Callable[[], TreeProposer] | None = None
    reader: Callable[[], NodeReader] | None = None


Maker = Callable[[Target], LoopDrafter]


def drafter(name: str, target: Target) -> LoopDrafter:
    """The drafter of a name for a target, fitted where it has to be.

    Args:
        name: of `drafter_names()`.
        target: the model and options.

    Raises:
        UnknownNameError: no such drafter.
        InputError: options that do not fit the model.
    """
    if name not in _MAKERS:
        raise UnknownNameError("drafter", name, drafter_names(), key="drafter")
    return _MAKERS[name](target)


def drafter_names() -> list[str]:
    """Names of all drafters."""
    return list(_MAKERS)


def _prompt_lookup(target: Target) -> LoopDrafter:
    sizes = target.options.ngram_sizes
    return LoopDrafter(
        title=f"prompt lookup, n-grams of {'/'.join(map(str, sizes))}",
        chain=partial(PromptLookup, sizes),
    )


def _suffix_automaton(target: Target) -> LoopDrafter:
    least = target.options.least_match
    return LoopDrafter(
        title=f"suffix automaton, matches of {least} or more",
        chain=partial(SuffixAutomaton, least_match=least),
    )


def _token_recycling(target: Target) -> LoopDrafter:
    return LoopDrafter(
        title="token recycling", tree=partial(TokenRecycling, target.model.config.vocabulary)
    )


def _early_exit(target: Target) -> LoopDrafter:
    from real_runs.decoding.tree_speculative import EarlyExitReader, by_levels

    model, options = target.model, target.options
    layer = options.exit_layer or max(1, round(model.config.layers / 3))
    recipe = FitRecipe(exit_layer=layer, **_recipe(target))
    fit = partial(fit_bridge, model, exit_layer=layer, ridge=options.ridge)
    bridge = _fitted(target, f"exit{layer}-bridge.safetensors", recipe, fit)
    return LoopDrafter(
        title=f"early exit after {layer} of {model.config.layers} layers",
        chain=lambda: EarlyExit(model, bridge),
        tree=lambda: by_levels(EarlyExitReader(model, bridge)),
        reader=lambda: EarlyExitReader(model, bridge),
    )


def _layer_skip(target: Target) -> LoopDrafter:
    from real_runs.decoding.tree_speculative import by_levels

    shorter, (start, stop) = _shorter(target), _gap(target)
    return LoopDrafter(
        title=f"layers {start} to {stop - 1} of {target.model.config.layers} skipped",
        chain=lambda: LayerSkip(shorter),
        tree=lambda: by_levels(LayerSkip(shorter)),
        reader=lambda: LayerSkip(shorter),
    )


def _gap(target: Target) -> tuple[int, int]:
    return target.options.skipped_layers or default_gap(target.model.config.layers)


def _shorter(target: Target) -> GapLlama:
    """The target less its skipped layers, with a fitted bridge or none in their place."""
    model, options = target.model, target.options
    start, stop = _gap(target)
    bridge = None
    if options.skip_bridge:
        recipe = GapRecipe(exit_layer=start, stop_layer=stop, **_recipe(target))
        fit = partial(fit_gap, model, start=start, stop=stop, ridge=options.ridge)
        bridge = _fitted(target, f"skip{start}-{stop}-bridge.safetensors", recipe, fit)
    return GapLlama(model, start=start, stop=stop, bridge=bridge)


def _feature_head(target: Target) -> LoopDrafter:
    head, _ = target.heads.feature_head()
    return _read(
        "one-layer head over the target's states", lambda: FeatureHeadReader(target.model, head)
    )


def _medusa_heads(target: Target) -> LoopDrafter:
    heads, _ = target.heads.medusa_heads()
    return _read(f"{heads.heads} independent heads", lambda: MedusaReader(target.model, heads))


def _hydra_heads(target: Target) -> LoopDrafter:
    heads, _ = target.heads.hydra_heads()
    return _read(
        f"{heads.heads} heads that read drafted tokens", lambda: HydraReader(target.model, heads)
    )


def _rest(target: Target) -> LoopDrafter:
    store = TextStore(target.heads.texts()[0])
    return LoopDrafter(title=f"store of {len(store):,} tokens", chain=lambda: RetrievedChain(store))


def _cascade(target: Target) -> LoopDrafter:
    shorter, inner = _shorter(target), target.options.cascade_tokens[1]
    return LoopDrafter(
        title=f"{shorter.config.layers} of the layers, drafted for by prompt lookup",
        chain=lambda: Cascade(shorter, inner_tokens=inner, sizes=target.options.ngram_sizes),
    )


def _draft_model(target: Target) -> LoopDrafter:
    """The model of `draft_model` where one is named, else one made out of the target."""
    path = target.options.draft_model
    draft = load_draft_model(path, target.model) if path else target.heads.draft_model()[0]
    return _read(f"draft model of {draft.config.layers} layers", lambda: DraftModelReader(draft))


def _read(title: str, reader: Callable[[], NodeReader]) -> LoopDrafter:
    """A drafter of chains and trees that reads its own nodes."""
    return LoopDrafter(
        title=title, chain=lambda: Chain(reader()), tree=lambda: _by_levels(reader()), reader=reader
    )


def _by_levels(reader: NodeReader) -> TreeProposer:
    from real_runs.decoding.tree_speculative import by_levels

    return by_levels(reader)


class Chain:
    """Proposes chains with a reader: trees of one branch.

    Attributes:
        reader: shown the target's states by the loop if it watches them.
    """

    def __init__(self, reader: NodeReader) -> None:
        self.reader = reader
        self._propose = _by_levels(reader)

    def __call__(self, known: Sequence[int], cache: KVCache, most: int) -> list[int]:
        """Propose `most` tokens after `known`: the form `speculate` calls."""
        return self._propose(known, cache, chain_tree(most))[1:]


def _recipe(target: Target) -> dict[str, Any]:
    return {
        "model_sha256": target.sha256,
        "dtype": target.options.dtype,
        "ridge": target.options.ridge,
        "data": target.fit_texts.title,
        "data_sha256": target.fit_texts.sha256,
    }


def _fitted(
    target: Target, file: str, recipe: FitRecipe, fit: Callable[[Sequence[Sequence[int]]], Bridge]
) -> Bridge:
    """A bridge as kept in the target's folder, or fitted now and kept there."""
    path = target.folder / file
    bridge = load_bridge(path, recipe)
    if bridge is None:
        bridge = fit(target.fit_sequences)
        save_bridge(bridge, recipe, path)
    return bridge


_MAKERS: Mapping[str, Maker] = {
    "prompt-lookup": _prompt_lookup,
    "suffix-automaton": _suffix_automaton,
    "token-recycling": _token_recycling,
    "early-exit": _early_exit,
    "layer-skip": _layer_skip,
    "feature-head": _feature_head,
    "medusa-heads": _medusa_heads,
    "draft-model": _draft_model,
    "hydra": _hydra_heads,
    "rest": _rest,
    "cascade": _cascade,
}
