"""Token recycling: a table of what followed every token, kept from the target's own answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import SpeculativeRun
from real_runs.decoding.tree_speculative import speculate_tree
from real_runs.drafters.drafter import Drafter, LoopDrafter, RecordedDrafter, Validated
from real_runs.drafters.token_recycling import CANDIDATES, NOTES, TokenRecycling, default_tree
from real_runs.models.llama import Llama


def token_recycling_drafter(model: Llama, nodes: int) -> RecordedDrafter:
    """Token recycling with its own tree; every request starts with an empty table.

    A table kept over requests would tie each request to all before it: no part of such a recording
    could be taken out, drawn again or resumed.
    """
    tree = default_tree(nodes=nodes, candidates=min(CANDIDATES, model.config.vocabulary))

    def decode(prompt: Sequence[int], sampler: Sampler, most: int) -> SpeculativeRun:
        table = TokenRecycling(
            model.config.vocabulary, candidates=min(CANDIDATES, model.config.vocabulary)
        )
        return speculate_tree(model, prompt, table, sampler, tree=tree, max_new_tokens=most)

    return RecordedDrafter(
        title=f"token recycling, tree of {tree.draft_tokens} draft tokens",
        parameters={
            "tree": tree.to_json(),
            "candidates": CANDIDATES,
            "table": "empty before every request",
        },
        notes=(
            f"{NOTES} Every request starts with an empty table: one kept over requests would draft"
            " better."
        ),
        observe=lambda _, __: {},
        decode=decode,
        policy_draft_tokens=tree.draft_tokens,
        policy_tree=tree,
    )


DRAFTER = Drafter(
    method="token-recycling",
    records="lengths",
    observe=lambda target: token_recycling_drafter(target.model, target.options.recycling_nodes),
    propose=lambda target: LoopDrafter(
        tree=partial(TokenRecycling, target.model.config.vocabulary)
    ),
    validated=Validated(),
    serves_batches=False,
    any_shape=False,
)
