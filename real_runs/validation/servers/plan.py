"""At which slots, prompts and contexts does a server run which configurations?

Cells are those of our own engine's validation, with the server's own token ids. A start of a server
serves all cells of its slots, so the spread of configurations that were not chosen belongs to a
number of slots. Synthetic cells have prompts of repeating tokens, after which a lookup proposes at
every step, and rates that are stated: what they cost is known apart from what real text accepts.
Leaves out running (`launches`) and choosing (`choice`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from costmodel.configuration import DecodingConfiguration
from hardware_profiles.errors import InputError
from real_runs.prompt_set import PromptSet
from real_runs.servers.asking import repeating_prompt
from real_runs.servers.identify import Server
from real_runs.servers.llama_cpp.answers import ask
from real_runs.trials.trials import PromptCell
from real_runs.validation.cells import make_cells
from real_runs.validation.configurations import spread
from real_runs.validation.servers.configurations import (
    DRAFT_TOKENS,
    NGRAM_FORMS,
    SYNTHETIC_ACCEPTANCE,
    SYNTHETIC_DRAFTS,
    SYNTHETIC_TOKENS,
    ServerConfiguration,
    drafted,
    looked_up,
    plain,
    synthetic,
)

SYNTHETIC = "synthetic"
SYNTHETIC_CONTEXT = 512


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What is to be measured.

    Attributes:
        slots: numbers of slots, each >= 1.
        contexts: tokens that prompts are filled up to.
        per_slots: lookups beside plain decoding and what is chosen.
        drafts: a draft model is there.
        synthetic: measure the grid of stated rates, too.
        seed: of the spread.
    """

    slots: Sequence[int]
    contexts: Sequence[int]
    per_slots: int
    drafts: bool
    synthetic: bool
    seed: int


def server_cells(
    server: Server, prompts: PromptSet, wanted: Wanted
) -> tuple[list[PromptCell], dict[str, tuple[int, ...]]]:
    """The cells, and the token ids of their prompts by name.

    Args:
        server: whose tokens prompts are made of.
        prompts: of several kinds.
        wanted: slots and contexts.

    Raises:
        InputError: the server does not tokenise, or there are too few prompts.
    """
    singles = 1 if max(wanted.slots) == 1 else 2
    cells, filled = make_cells(
        prompts,
        lambda text: len(chat_ids(server, text)),
        contexts=wanted.contexts,
        fitted_contexts=(),
        batches=wanted.slots,
        singles=singles,
    )
    ids = {prompt.id: tuple(chat_ids(server, prompt.text)) for prompt in filled.prompts}
    if wanted.synthetic:
        for slot in range(max(wanted.slots)):
            ids[f"{SYNTHETIC}-{slot}"] = repeating_prompt(slot, SYNTHETIC_CONTEXT)
        cells += [
            PromptCell(
                phase="score",
                kind=SYNTHETIC,
                context=SYNTHETIC_CONTEXT,
                batch=slots,
                prompts=tuple(f"{SYNTHETIC}-{slot}" for slot in range(slots)),
            )
            for slots in wanted.slots
        ]
    return cells, ids


def cell_plan(
    cells: Sequence[PromptCell],
    base: DecodingConfiguration,
    chosen: Mapping[str, ServerConfiguration],
    wanted: Wanted,
) -> list[tuple[PromptCell, list[ServerConfiguration]]]:
    """What runs in every cell.

    Args:
        cells: all of them.
        base: model, device and engine of every configuration.
        chosen: what `optimize` chose, by name of the cell; none for synthetic cells.
        wanted: how many, and which kinds.
    """
    shortest, plan = min(wanted.contexts), list[tuple[PromptCell, list[ServerConfiguration]]]()
    for cell in cells:
        here = replace(base, max_batch=cell.batch)
        if cell.kind == SYNTHETIC:
            plan.append((cell, _grid(here, drafts=wanted.drafts)))
            continue
        best = chosen[cell.name]
        configurations = [plain(here), *([best] if best.drafter else [])]
        others = [one for name, one in chosen.items() if _slots(cells, name) == cell.batch]
        pool = [looked_up(here, size, k) for size, k in NGRAM_FORMS]
        configurations += spread(
            pool, wanted.per_slots, excluded=[plain(here), *others], seed=wanted.seed + cell.batch
        )
        if wanted.drafts and cell.context == shortest:
            names = {configuration.name for configuration in configurations}
            configurations += [
                draft for k in DRAFT_TOKENS[::2] if (draft := drafted(here, k)).name not in names
            ]
        plan.append((cell, configurations))
    return plan


def _grid(base: DecodingConfiguration, *, drafts: bool) -> list[ServerConfiguration]:
    """Plain decoding, lookups of each length at each acceptance, and few drafts of a model: its
    prompts are slow.
    """
    chains = [looked_up(base, 1, k) for k in SYNTHETIC_TOKENS]
    grid = [
        plain(base),
        *(synthetic(lookup, rate) for lookup in chains for rate in SYNTHETIC_ACCEPTANCE),
    ]
    return grid + [
        synthetic(drafted(base, k), max(SYNTHETIC_ACCEPTANCE)) for k in SYNTHETIC_DRAFTS if drafts
    ]


def _slots(cells: Sequence[PromptCell], name: str) -> int:
    return next(cell.batch for cell in cells if cell.name == name)


def chat_ids(server: Server, text: str) -> list[int]:
    """Token ids of one user turn, ready for the answer, as llama.cpp's server makes them.

    Raises:
        InputError: it answers something else.
    """
    framed = ask(
        server.address, "/apply-template", {"messages": [{"role": "user", "content": text}]}
    ).get("prompt")
    body = {"content": framed, "add_special": True, "parse_special": True}
    ids = ask(server.address, "/tokenize", body).get("tokens")
    if not isinstance(ids, list) or not ids or not all(type(token) is int for token in ids):
        raise InputError(
            "must answer token ids", key=f"{server.address}/tokenize", value=str(ids)[:200]
        )
    return ids
