"""What does a drafter say of itself, and what does it make of a target?

An entry per drafter (`entries`): the decoding method that it belongs to, which prices and exports
it, what it leaves in a recording, and what decodes with it. Leaves out which drafters there are
(`registry`) and the target (`target`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from real_runs.decoding.batch_speculative import BatchProposer, per_request
from real_runs.decoding.drafting import NodeReader, Proposer, TreeProposer
from real_runs.decoding.generate import Generation
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import SpeculativeRun
from real_runs.drafters.early_exit import RANK_WIDTH, chain_lengths
from real_runs.drafters.options import DrafterOptions
from real_runs.drafters.prompt_lookup import LookupLengths
from real_runs.drafters.target import Target
from real_runs.models.cache import KVCache
from traces.kinds.expansions import Expansions
from traces.kinds.tree import Tree

Arrays = Mapping[str, NDArray[Any] | Expansions]
Observation = Callable[[Sequence[int], Generation], Arrays]
Count = Callable[[Sequence[int], Generation], Mapping[str, int]]
Decoding = Callable[[Sequence[int], Sampler, int], SpeculativeRun]
Batch = Callable[[Sequence[Sequence[int]]], BatchProposer]
Records = Literal["lengths", "ranks", "probabilities"]
Form = Literal["chain", "tree", "reader", "batch"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedDrafter:
    """One drafter as a recording sees it.

    Attributes:
        name: of the registry, which sets it.
        method: slug of the decoding method it belongs to; the registry sets it.
        title: what it is, in words.
        parameters: JSON values that fix what it proposes.
        notes: what a reader of the trace must know.
        observe: prompt ids and generation -> `emitted` and, where they apply, `drafted`, `rank`,
            `draft_ids`, `draft_probs` and `expansions`.
        count: prompt ids and generation -> numbers of the whole request, which become columns;
            None: it has none.
        trace_fields: further fields of the trace.
        capture_layer: layers after which it reads the target's hidden states; None: it reads none.
        decode: of a drafter that cannot watch a finished text: prompt ids, sampler and length limit
            -> a run of its own, which then stands in place of the generation.
        policy_draft_tokens: draft tokens of its steps, where nothing else can be replayed; None:
            any can be.
        policy_tree: the tree of its steps, where a loop drafts no other; None: it drafts any.
    """

    title: str
    parameters: Mapping[str, Any]
    notes: str
    observe: Observation
    name: str = ""
    method: str = ""
    count: Count | None = None
    trace_fields: Mapping[str, Any] = field(default_factory=dict)
    capture_layer: int | None = None
    decode: Decoding | None = None
    policy_draft_tokens: int | None = None
    policy_tree: Tree | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopDrafter:
    """A drafter as decoding loops need it; what it makes serves one request.

    Attributes:
        chain: makes a proposer of chains; None where it drafts trees alone.
        tree: makes a proposer of trees, whose attribute `learn`, if it has one, wants the target's
            answers; None where it drafts chains alone.
        reader: makes what reads single nodes of a tree, for drafts that are drawn and trees that
            change from step to step; None where the drafter runs no network.
        batch: makes a proposer for requests that run together, of their prompts; None where
            requests run one at a time.
    """

    chain: Callable[[], Proposer] | None = None
    tree: Callable[[], TreeProposer] | None = None
    reader: Callable[[], NodeReader] | None = None
    batch: Batch | None = None


_LACKS = {
    "chain": "drafts trees alone",
    "tree": "drafts chains alone",
    "reader": "runs no network, so that its drafts have no probabilities",
    "batch": "drafts one request at a time",
}


def form_of(drafter: LoopDrafter, form: Form, *, key: str, name: str) -> Callable[..., Any]:
    """What makes a request's proposer or reader of a form, or that of a batch of its prompts.

    Args:
        drafter: as loops need it.
        form: which attribute of it is wanted.
        key: of the refusal.
        name: of the drafter, for the refusal.

    Raises:
        InputError: the drafter has none of that form.
    """
    made: Callable[..., Any] | None = getattr(drafter, form)
    if made is None:
        raise InputError(_LACKS[form], key=key, value=name)
    return made


def no_check(options: DrafterOptions, layers: int) -> None:
    """Options that fit every target."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Validated:
    """How `validate` runs a drafter beside predictions.

    Attributes:
        static_trees: run beside its chains.
        fitted_lengths: number of chain lengths that its costs are fitted on.
        longest_prompt: tokens of the prompts that it runs on; None: any.
    """

    static_trees: bool = False
    fitted_lengths: int = 2
    longest_prompt: int | None = None

    def runs_on(self, prompt_tokens: int) -> bool:
        """Whether it runs on prompts of so many tokens."""
        return self.longest_prompt is None or prompt_tokens <= self.longest_prompt


@dataclass(frozen=True, kw_only=True, slots=True)
class Drafter:
    """What stands behind a drafter's name.

    Attributes:
        method: slug of the decoding method it belongs to: what prices it, and what exporters and
            engines call it.
        records: the most that it leaves in a recording: lengths of chains, ranks of the true
            tokens, or probabilities too, at level 3.
        observe: what it leaves in recordings of a target; fits or trains what it needs.
        propose: what decodes with it; None: no loop here does.
        check: refuses options that do not fit a target of so many layers.
        validated: how `validate` runs it beside predictions; None: it does not.
        serves_batches: requests that run together may use it.
        any_shape: steps of any chain or tree follow from its recordings; else only those of the
            tree that was recorded.
    """

    method: str
    records: Records
    observe: Callable[[Target], RecordedDrafter]
    propose: Callable[[Target], LoopDrafter] | None = None
    check: Callable[[DrafterOptions, int], None] = no_check
    validated: Validated | None = None
    serves_batches: bool = True
    any_shape: bool = True


class TextIndex(Protocol):
    """A proposer of chains that needs nothing but the text."""

    def extend(self, tokens: Sequence[int]) -> None:
        """Append known tokens."""

    def __call__(self, prefix: Sequence[int], cache: KVCache, most: int) -> list[int]:
        """Propose up to `most` tokens after `prefix`."""


def batch_of_indexes(make: Callable[[], TextIndex]) -> Batch:
    """Requests that run together, each with an index of its own, which has read the prompt."""

    def batch(prompts: Sequence[Sequence[int]]) -> BatchProposer:
        indexes = [make() for _ in prompts]
        for index, prompt in zip(indexes, prompts, strict=True):
            index.extend(prompt)
        return per_request(indexes)

    return batch


def observed_lengths(
    lengths: Callable[[Sequence[int], Sequence[int]], LookupLengths],
) -> Observation:
    """An observation of what is proposed after a text, and what of it stands.

    Args:
        lengths: prompt ids and output ids -> lengths by output position.
    """

    def observe(prompt: Sequence[int], generation: Generation) -> Arrays:
        after = lengths(prompt, generation.tokens)
        return {"emitted": after.emitted, "drafted": after.drafted}

    return observe


def observed_ranks(
    ranks: Callable[[Sequence[int], Generation], NDArray[Any]],
) -> tuple[Observation, Mapping[str, Any]]:
    """An observation of the ranks of true tokens, the same at every depth; and its fields.

    Args:
        ranks: prompt ids and generation -> rank of the true token by output position.
    """

    def observe(prompt: Sequence[int], generation: Generation) -> Arrays:
        rank = ranks(prompt, generation)
        return {"emitted": chain_lengths(rank), "rank": rank}

    return observe, {"rank_width": RANK_WIDTH, "depth_invariant": True}
