"""Which tokens does the target itself name further on, when trained prompt tokens follow the text?

A few embeddings that stand for no word are read behind a token; the target's own layers and head
say at the d-th of them which token comes d + 1 places after the next one. In a real loop they ride
behind every node of the tree that is verified, so that those behind the last accepted node have
drafted the next step in the same pass. Leaves out training (`prompt_tokens_fit`), several
embeddings per place, and trees in which some nodes carry fewer prompt tokens.

Reference: Chen et al., Hardware-Aware Parallel Prompt Decoding, arXiv 2405.18628, sec. 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import nn

from hardware_profiles.errors import InputError
from real_runs.decoding.generate import check_room
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import DraftedTokens, SpeculativeRun, decode, matching
from real_runs.decoding.tree import TreeLayout
from real_runs.decoding.tree_speculative import best_first_rows, level_ordered
from real_runs.drafters.expansion import NodeBatch
from real_runs.models.cache import KVCache
from real_runs.models.llama import Llama
from traces.kinds.tree import Tree

PROMPT_TOKENS = 3
_ROOTS_AT_ONCE = 32


class PromptTokens(nn.Module):
    """Embeddings of the prompt tokens: token d (0 first) speaks of the word d + 2 places after the
    one it follows.

    Args:
        width: of the target.
        count: how many, 1..16.

    Raises:
        InputError: too few or too many.
    """

    def __init__(self, width: int, *, count: int = PROMPT_TOKENS) -> None:
        super().__init__()
        if not 1 <= count <= 16:
            raise InputError("must lie in 1..16", key="prompt_tokens", value=count)
        self.count = count
        self.embeddings = nn.Parameter(torch.zeros(count, width))


class PromptedLlama(Llama):
    """The target, sharing its weights, with prompt tokens as ids behind its vocabulary.

    Such ids can be read and never come out: the output head is the target's own.

    Args:
        model: the target.
        prompts: the embeddings.

    Attributes:
        prompt_ids: ids of the prompt tokens, in order.
    """

    def __init__(self, model: Llama, prompts: PromptTokens) -> None:
        self.__dict__.update(model.__dict__)
        self._embedding = torch.cat(
            [model._embedding, prompts.embeddings.detach().to(model._embedding)]
        )
        self.prompt_ids = list(
            range(model.config.vocabulary, model.config.vocabulary + prompts.count)
        )


class PromptText:
    """Reads a finished text with prompt tokens behind every place: a `TextReader`.

    Candidates of a level follow from the text before a step's last known token alone, so that a
    node costs nothing.
    """

    def __init__(self, model: Llama, prompts: PromptTokens) -> None:
        self._model = PromptedLlama(model, prompts)
        self._first = 0
        self._states = torch.zeros(0)  # [roots, prompt tokens, width]

    def read_text(self, prompt: Sequence[int], output: Sequence[int], scratch: int) -> torch.Tensor:
        """Logits [n, vocabulary] before every output token."""
        model, ids = self._model, self._model.prompt_ids
        text = [*prompt, *output[:-1]]
        cache = model.new_cache(len(text) + _ROOTS_AT_ONCE * len(ids))
        model.forward(text, cache, logits="none")
        cache.commit(len(text))
        self._first = len(prompt) - 1
        roots = torch.arange(self._first, len(text))
        self._states = torch.cat(
            [
                self._behind(roots[first : first + _ROOTS_AT_ONCE], cache)
                for first in range(0, len(roots), _ROOTS_AT_ONCE)
            ]
        )
        return model.head(self._states[:, 0]).cpu()

    def read_nodes(self, nodes: NodeBatch) -> torch.Tensor:
        """Logits [F, vocabulary] after the nodes: those of their depth; all zero below the last
        prompt token.
        """
        logits = torch.zeros(len(nodes.tokens), self._model.config.vocabulary)
        depths = nodes.positions - nodes.roots
        inside = depths < self._states.shape[1]
        states = self._states[(nodes.roots - self._first)[inside], depths[inside]]
        logits[inside] = self._model.head(states).cpu()
        return logits

    def _behind(self, roots: torch.Tensor, cache: KVCache) -> torch.Tensor:
        """States [R, prompt tokens, width] of the prompt tokens that follow the token before each
        root.
        """
        ids, start, layers = self._model.prompt_ids, cache.length, self._model.config.layers
        count = len(ids)
        prompt_mask = torch.kron(torch.eye(len(roots)), torch.ones(count, count).tril()).bool()
        text_mask = torch.arange(start) < roots.repeat_interleave(count)[:, None]
        return (
            self._model.forward(
                ids * len(roots),
                cache,
                start=start,
                positions=(roots[:, None] + torch.arange(count)).flatten(),
                mask=torch.cat([text_mask, prompt_mask], dim=1),
                logits="none",
                capture=(layers,),
            )
            .hidden[layers][0]
            .view(len(roots), count, -1)
        )


class PromptDraft:
    """Drafts one tree a step from the prompt tokens of the pass before: a `Watcher`.

    Args:
        model: the target with its prompt tokens.
        tree: draft tokens of every step, in level order, no deeper than there are prompt tokens.
    """

    def __init__(self, model: PromptedLlama, tree: Tree) -> None:
        if len(tree.level_widths()) > len(model.prompt_ids):
            raise InputError(
                f"must have at most {len(model.prompt_ids)} levels",
                key="tree",
                value=len(tree.level_widths()),
            )
        self._model, self._tree = model, tree
        self.capture: tuple[int, ...] = (model.config.layers,)
        self._parents = list(tree.parents)
        for node in range(tree.nodes):
            behind = tree.nodes + node * len(model.prompt_ids)
            self._parents += [node, *range(behind, behind + len(model.prompt_ids) - 1)]
        self._states: torch.Tensor | None = None
        self._drafted = False

    def draft(self, prefix: Sequence[int], cache: KVCache) -> DraftedTokens:
        """The tree with prompt tokens behind all of its nodes, which no walk enters."""
        tree, model = self._tree, self._model
        states = self._after_prefill(cache) if self._states is None else self._states
        rows = best_first_rows(model.head(states), max(tree.ranks) + 1)
        depths = [0]
        tokens = [prefix[-1]]
        for parent, rank in zip(tree.parents[1:], tree.ranks[1:], strict=True):
            depths.append(depths[parent] + 1)
            tokens.append(rows[depths[parent]][rank])
        layout = TreeLayout(self._parents, len(prefix) - 1, model.device)
        layout.children = [
            [child for child in below if child < tree.nodes] for below in layout.children
        ]
        self._drafted = True
        return DraftedTokens(tokens=[*tokens, *model.prompt_ids * tree.nodes], layout=layout)

    def watch(
        self, tokens: Sequence[int], hidden: Mapping[int, torch.Tensor], accepted: Sequence[int]
    ) -> None:
        """Take the states of the prompt tokens behind the last accepted node; a prefill carries
        none.
        """
        if self._drafted:
            count = len(self._model.prompt_ids)
            first = self._tree.nodes + accepted[-1] * count
            self._states = hidden[self.capture[0]][first : first + count]

    def _after_prefill(self, cache: KVCache) -> torch.Tensor:
        """States of prompt tokens behind the prompt, from a pass of their own."""
        read = self._model.forward(
            self._model.prompt_ids, cache, logits="none", capture=self.capture
        )
        return read.hidden[self.capture[0]][0]


def speculate_prompted(
    model: Llama,
    prompt: Sequence[int],
    prompts: PromptTokens,
    sampler: Sampler,
    *,
    tree: Tree,
    max_new_tokens: int,
) -> SpeculativeRun:
    """Decode one request by trees that prompt tokens draft in the verify pass.

    Args:
        model: the target.
        prompt: its ids, at least one.
        prompts: the embeddings.
        sampler: greedy or seeded sampling.
        tree: the tree of every step, no deeper than there are prompt tokens.
        max_new_tokens: length limit, >= 1.

    Raises:
        InputError: a prompt that does not fit, or a tree that is too deep or has ranks beyond the
            vocabulary.
    """
    check_room(model, prompt, max_new_tokens)
    tree = level_ordered(tree, model.config.vocabulary)
    prompted = PromptedLlama(model, prompts)
    drafter = PromptDraft(prompted, tree)
    run = decode(
        prompted,
        prompt,
        drafter.draft,
        matching(sampler),
        slots=tree.nodes * (1 + prompts.count),
        max_new_tokens=max_new_tokens,
        watcher=drafter,
    )
    return replace(run, drafted=(tree.draft_tokens,) * len(run.drafted))
