"""What does draft-and-verify decoding emit when drafts and verdicts are drawn at random?

A real loop at batch 1 over a static tree, chains included: a reader's softmax gives every node its
children, a verifier of `verifiers` decides which path stays. With a lossless verifier the text has
the distribution of plain sampling, but it is another text than plain sampling with the same seed
would give. Leaves out trees that differ from step to step (`dynamic_tree`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

import numpy as np
import torch

from hardware_profiles.errors import InputError
from real_runs.decoding.drafting import NodeReader, watcher_of
from real_runs.decoding.generate import check_room
from real_runs.decoding.speculative import DraftedTokens, Judge, SpeculativeRun, decode
from real_runs.decoding.tree import TreeLayout
from real_runs.decoding.tree_speculative import best_first, level_ordered
from real_runs.decoding.verifiers import (
    Draws,
    NodeVerdict,
    Row,
    Rule,
    Verifier,
    best_path,
    best_path_rows,
    block_probabilities,
    block_residual,
    drawn,
    normalised,
    one_hot,
    verifier_named,
    without,
)
from real_runs.models.cache import KVCache
from real_runs.models.llama import Llama
from traces.kinds.tree import Tree


def speculate_sampled(
    model: Llama,
    prompt: Sequence[int],
    reader: NodeReader,
    *,
    verifier: str | Verifier,
    tree: Tree,
    temperature: float,
    generator: np.random.Generator,
    max_new_tokens: int,
    draft_temperature: float = 1.0,
    draws: Draws | None = None,
    timed: bool = False,
) -> SpeculativeRun:
    """Decode one request with drafts and verdicts that are drawn.

    Args:
        model: the target.
        prompt: its ids, at least one.
        reader: the drafter.
        verifier: a `Verifier` or its name.
        tree: the static tree, `chain_tree(K)` for chains. Rank r is the r-th candidate drawn, so
            that elder siblings must be there.
        temperature: the target's, >= 0; 0 is greedy.
        generator: of all draws of this request.
        max_new_tokens: length limit, >= 1.
        draft_temperature: the drafter's, > 0.
        draws: how candidates are chosen; what the verifier asks for by default, the likeliest where
            it leaves the choice.
        timed: measure the phases of every step.

    Raises:
        InputError: a prompt that does not fit, a temperature out of range, a tree with siblings
            missing, or draws or siblings that the verifier cannot judge.
    """
    verifier = verifier_named(verifier) if isinstance(verifier, str) else verifier
    wanted = draws or ("largest" if verifier.draws == "any" else verifier.draws)
    check_room(model, prompt, max_new_tokens)
    _check(verifier, wanted, tree, temperature, draft_temperature)
    tree = level_ordered(tree, model.config.vocabulary)
    layout = TreeLayout(tree.parents, len(prompt) + max_new_tokens, model.device)
    return decode(
        model,
        prompt,
        _drafting(reader, tree, layout, wanted, draft_temperature, generator),
        judging(verifier, temperature, generator),
        slots=tree.draft_tokens,
        max_new_tokens=max_new_tokens,
        watcher=watcher_of(reader),
        timed=timed,
    )


def _drafting(
    reader: NodeReader,
    tree: Tree,
    layout: TreeLayout,
    draws: Draws,
    temperature: float,
    generator: np.random.Generator,
) -> Callable[[Sequence[int], KVCache], DraftedTokens]:
    """Draft a tree level by level, with one reading of the drafter for each."""
    bounds = [(0, 1), *pairwise(accumulate(tree.level_widths(), initial=1))]

    def draft(prefix: Sequence[int], cache: KVCache) -> DraftedTokens:
        tokens, rows, root = [prefix[-1]], dict[int, Row](), len(prefix) - 1
        positions, mask = layout.positions(root), layout.mask(root)
        for start, stop in bounds[:-1]:
            logits = (
                reader.after_prefix(prefix, cache)[None]
                if start == 0
                else reader.after_nodes(
                    tokens[start:],
                    cache,
                    start=root + start,
                    positions=positions[start:stop],
                    mask=mask[start:stop, : root + stop],
                )
            )
            for node, row in zip(range(start, stop), logits, strict=True):
                count = len(layout.children[node])
                if not count:
                    continue
                if draws == "largest":
                    tokens += best_first(row, count)
                else:
                    rows[node] = distribution(row, temperature)
                    tokens += candidates(rows[node], count, generator, distinct=draws == "distinct")
        return DraftedTokens(tokens=tokens, layout=layout, rows=rows)

    return draft


def judging(verifier: Verifier, temperature: float, generator: np.random.Generator) -> Judge:
    """Walk down from the root as the verifier says."""
    if verifier.rule is None:
        return _judging_blocks(temperature, generator)
    rule = verifier.rule

    def judge(
        draft: DraftedTokens, logits: torch.Tensor, first: int
    ) -> tuple[list[int], list[int]]:
        taken = _longest(draft, rule, logits, temperature) if verifier.longest else None
        path = [0]
        while True:
            here = path[-1]
            verdict = _verdict(draft, rule, logits, temperature, here)
            stays = (
                _stays(draft.children(here), verdict, generator) if taken is None else taken[here]
            )
            if stays is None:
                return path, [
                    *(draft.tokens[node] for node in path[1:]),
                    drawn(verdict.residual, generator),
                ]
            path.append(stays)

    return judge


def distribution(logits: torch.Tensor, temperature: float) -> Row:
    """The softmax of logits [vocabulary] at a temperature; certainty of the largest at 0."""
    if temperature == 0:
        return one_hot(int(logits.argmax()), logits.numel())
    row: Row = torch.softmax(logits.double() / temperature, dim=-1).cpu().numpy()
    return row


def candidates(
    row: Row, count: int, generator: np.random.Generator, *, distinct: bool
) -> list[int]:
    """Ids drawn from a distribution, with or without replacement.

    Where nothing is left to draw without replacement, the first is repeated: it has fallen, so that
    no verifier lets a repetition stay.
    """
    chosen: list[int] = []
    for _ in range(count):
        chosen.append(drawn(row, generator) if row.any() else chosen[0])
        if distinct:
            left = without(row, chosen[-1])
            row = normalised(left, left)
    return chosen


def _check(
    verifier: Verifier, draws: Draws, tree: Tree, temperature: float, draft_temperature: float
) -> None:
    if not 0 <= temperature < float("inf"):
        raise InputError("must be >= 0", key="temperature", value=temperature)
    if not 0 < draft_temperature < float("inf"):
        raise InputError("must be > 0", key="draft_temperature", value=draft_temperature)
    if verifier.draws not in ("any", draws):
        raise InputError(
            f"{verifier.name} judges {verifier.draws} candidates alone", key="draws", value=draws
        )
    if not tree.is_sibling_closed:
        raise InputError("elder siblings must be in the tree", key="tree", value=tree.ranks)
    widths = tree.level_widths()
    if verifier.shape == "chain" and max(widths, default=0) > 1:
        raise InputError(f"{verifier.name} judges chains alone", key="tree", value=widths)
    if verifier.shape == "chains" and (
        len(set(widths)) > 1 or any(tree.ranks[1 + sum(widths[:1]) :])
    ):
        raise InputError(
            f"{verifier.name} judges chains of one length below the root", key="tree", value=widths
        )


def _verdict(
    draft: DraftedTokens, rule: Rule, logits: torch.Tensor, temperature: float, node: int
) -> NodeVerdict:
    candidates = [draft.tokens[child] for child in draft.children(node)]
    return rule(distribution(logits[node], temperature), draft.rows.get(node), candidates)


def _stays(
    children: Sequence[int], verdict: NodeVerdict, generator: np.random.Generator
) -> int | None:
    candidates = zip(children, verdict.accept, strict=True)
    return next(
        (child for child, probability in candidates if generator.random() < probability), None
    )


def _longest(
    draft: DraftedTokens, rule: Rule, logits: torch.Tensor, temperature: float
) -> list[int | None]:
    """By node, the child on the longest path of nodes that stay; of equal ones the first."""
    reach, best = [0] * len(draft.tokens), list[int | None]([None] * len(draft.tokens))
    for node in reversed(range(len(draft.tokens))):
        verdict = _verdict(draft, rule, logits, temperature, node)
        for child, probability in zip(draft.children(node), verdict.accept, strict=True):
            if probability > 0 and reach[child] + 1 > reach[node]:
                reach[node], best[node] = reach[child] + 1, child
    return best


def _judging_blocks(temperature: float, generator: np.random.Generator) -> Judge:
    def judge(
        draft: DraftedTokens, logits: torch.Tensor, first: int
    ) -> tuple[list[int], list[int]]:
        targets = [distribution(row, temperature) for row in logits]
        paths = [_descended(draft, node) for node in draft.children(0)] or [[0]]
        tokens = [[draft.tokens[node] for node in path[1:]] for path in paths]
        rows = [[draft.rows[node] for node in path[:-1]] for path in paths]
        best = best_path([[targets[node] for node in path] for path in paths], rows, tokens)
        here = [targets[node] for node in paths[best]]
        drafters = best_path_rows(here, rows[best], tokens[best], len(paths))
        passing, ratios = block_probabilities(here, drafters, tokens[best])
        passed = np.flatnonzero(generator.random(len(passing)) < passing)
        length = int(passed[-1]) + 1 if passed.size else 0
        residual = block_residual(
            here[length], drafters[length] if length < len(drafters) else None, ratios[length]
        )
        return paths[best][: length + 1], [*tokens[best][:length], drawn(residual, generator)]

    return judge


def _descended(draft: DraftedTokens, node: int) -> list[int]:
    """Root, node and its only descendants."""
    path = [0, node]
    while below := draft.children(path[-1]):
        path.append(below[0])
    return path
