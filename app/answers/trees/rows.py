"""What does `tree` answer? The best tree of every budget with what engines can run of it, the fastest
on a device, or how a batch shares its nodes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from app.answers.answer import Answer, Column, Row, Table
from app.answers.cells import MarkedCell, reason_lines
from app.answers.numbers import fixed, plain
from costmodel.optimizers.trees.certificate import Certificate
from traces.kinds.tree import Tree

_SHOWN_REQUESTS = 16
_FORMS = {
    "chain": "chain",
    "level_uniform": "children by level (vLLM)",
    "beam": "beam (EAGLE-2, SGLang)",
}
TokensPerStep = Annotated[
    float, Column("Emitted per step, the bonus token included.", "tokens/step", decimals=4)
]


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeCertificate(Row):
    """How far a choice can be from the best one."""

    kind: Annotated[str, Column("`exact`, or a `bound`.")]
    gap: Annotated[float | None, Column("Most that the best one can be above it.")] = None

    @classmethod
    def of(cls, certificate: Certificate) -> Self:
        """The row of a certificate."""
        return cls(kind=certificate.kind, gap=certificate.gap)


@dataclass(frozen=True, kw_only=True, slots=True)
class SizedTree(Row):
    """A tree in the form that `--tree` reads."""

    nodes: Annotated[int, Column("Nodes, the root included.")]
    parents: Annotated[Sequence[int], Column("Parent of every node, -1 of the root.")]
    ranks: Annotated[Sequence[int], Column("Rank of every node among its siblings.")]
    root_included: Annotated[bool, Column("The first node is the root.")] = True

    @property
    def nodes_by_level(
        self,
    ) -> Annotated[str, Column("Nodes of every level.", of=("parents", "ranks"))]:
        """How many nodes every level has, the root first."""
        return level_words(self.tree)

    @property
    def tree(self) -> Tree:
        """Its shape."""
        return Tree(parents=tuple(self.parents), ranks=tuple(self.ranks))


def level_words(tree: Tree) -> str:
    """How many nodes every level has, as `1, 3, 2`."""
    levels = tree.node_levels().tolist()
    return ", ".join(str(levels.count(level)) for level in range(max(levels) + 1))


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineTree(SizedTree):
    """The best tree of a form that engines run."""

    budget: Annotated[int, Column("Nodes of the free tree that it stands beside.")]
    form: Annotated[str, Column("`chain`, `level_uniform` or `beam`.")]
    draft_tokens: Annotated[int | None, Column("Of a chain or a beam, the root left out.")] = None
    children: Annotated[Sequence[int] | None, Column("Children of a node, by level.")] = None
    topk: Annotated[int | None, Column("Candidates that a beam keeps at a level.")] = None
    steps: Annotated[int | None, Column("Draft passes of a beam.")] = None
    tokens_per_step: TokensPerStep
    loss_ratio: Annotated[float, Column("What it loses against the free tree.")]

    @property
    def form_words(self) -> Annotated[str, Column("Its form.", "form")]:
        """Its form, with the engines that run it."""
        return _FORMS[self.form]

    @property
    def settings(self) -> Annotated[str, Column("Options of the engine.")]:
        """The options of the engine that make this tree."""
        if self.form == "chain":
            return f"K={self.draft_tokens}"
        if self.children is not None:
            return " x ".join(map(str, self.children))
        return f"topk {self.topk}, {self.steps} steps, {self.draft_tokens} draft tokens"

    @property
    def lost(self) -> Annotated[str, Column("What it loses.")]:
        """What it loses, in percent."""
        return f"{self.loss_ratio:.1%}"


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeSearch(Row):
    """How long the search for a tree on a recording took."""

    iterations: Annotated[int, Column("Trees replayed until one repeated.")]
    cycle_length: Annotated[
        int, Column("1 at a fixed point, more where the search cycles, 0 where it does neither.")
    ]
    swaps: Annotated[int, Column("Leaves that were exchanged.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class OracleTrees(Row):
    """Tokens per step that no choice of trees on the recording exceeds."""

    one_tree_at_most: Annotated[float, Column("Of one tree for all.")]
    tree_per_request_at_most: Annotated[float, Column("Of a tree for every request.")]
    tree_per_step: Annotated[float, Column("Of a tree for every step, knowing the text.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class LikeliestNodes(Row):
    """A tree of the likeliest nodes, chosen anew at every step."""

    tokens_per_step: TokensPerStep
    mean_passes: Annotated[float, Column("Draft passes of a step.")]
    lower_bound_steps_ratio: Annotated[
        float, Column("Share of steps of which the recording bounds the tokens from below.")
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOutTree(Row):
    """What a tree chosen on half of the requests does on the other half."""

    tokens_per_step: TokensPerStep
    vector_tree_tokens_per_step: Annotated[
        float, Column("Of the tree that the sibling vectors of the same half choose.")
    ]
    gain_ratio: Annotated[float, Column("Against that tree.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class SafeTree(SizedTree):
    """The tree that emits most at the low end of the draws."""

    low_tokens_per_step: Annotated[float, Column("Which 9 draws of 10 exceed.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeSampling(Row):
    """What the sampling error of the sibling vectors means for the tree of a budget."""

    nodes: Annotated[int, Column("Nodes of that tree, the root included.")]
    recorded_tokens: Annotated[int, Column("Positions that the vectors were counted on.")]
    low_tokens_per_step: Annotated[
        float, Column("Which 9 draws of 10 exceed.", "low end", decimals=4)
    ]
    mean_regret_ratio: Annotated[float, Column("Mean loss against the best tree of a draw.")]
    changes: Annotated[bool, Column("Whether the safest tree is another one.")]
    safe_tree: Annotated[SafeTree, Column("The safest tree.")]
    regret_by_tokens: Annotated[
        Sequence[tuple[int, float]],
        Column("Recorded tokens, and the loss that 9 of 10 trees chosen on so many stay below."),
    ]
    enough_tokens: Annotated[
        int | None, Column("The fewest of them with a loss of at most 1 %; None: more than all.")
    ]

    @property
    def mean_regret(self) -> Annotated[str, Column("Mean loss.")]:
        """The mean loss in percent."""
        return f"{self.mean_regret_ratio:.2%}"

    @property
    def safest_low(self) -> Annotated[float, Column("Its low end.", "safest tree's", decimals=4)]:
        """The low end of the safest tree."""
        return self.safe_tree.low_tokens_per_step

    @property
    def safest_levels(self) -> Annotated[str, Column("Its nodes.", "safest tree, by level")]:
        """The nodes of the safest tree by level, where it is another one."""
        return self.safe_tree.nodes_by_level if self.changes else "the same tree"

    @property
    def enough(self) -> Annotated[str, Column("Tokens that are enough.", "enough tokens")]:
        """How many recorded tokens are enough."""
        if self.enough_tokens is None:
            return f"more than {plain(self.regret_by_tokens[-1][0])}"
        return plain(self.enough_tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetTree(SizedTree):
    """The tree that emits most within a budget; what is below `certificate` needs a recording."""

    depth: Annotated[int, Column("Levels at most, the root included.", "levels")]
    tokens_per_step: TokensPerStep
    certificate: Annotated[TreeCertificate, Column("How far it can be from the best.")]
    search: Annotated[TreeSearch | None, Column("How long the search took.")] = None
    oracle: Annotated[OracleTrees | None, Column("What no choice of trees exceeds.")] = None
    vector_tree_tokens_per_step: Annotated[
        float | None, Column("Of the tree that the sibling vectors choose.")
    ] = None
    dynamic_tree: Annotated[
        LikeliestNodes | None, Column("A tree of as many nodes chosen at every step.")
    ] = None
    held_out: Annotated[HeldOutTree | None, Column("Chosen on half of the requests.")] = None
    runtime_trees: Annotated[Sequence[EngineTree], Column("What engines can run.")]
    sampling: Annotated[TreeSampling | None, Column("How sure the tree is.")] = None

    @property
    def proof(self) -> Annotated[str, Column("Its kind.", "certificate", of=("certificate",))]:
        """Whether it is the best, or within a bound of it."""
        return self.certificate.kind

    @property
    def one_tree_at_most(
        self,
    ) -> Annotated[float | None, Column("Of one tree.", "any tree, at most", decimals=4)]:
        """Tokens per step that no tree exceeds."""
        return None if self.oracle is None else self.oracle.one_tree_at_most

    @property
    def tree_per_request_at_most(
        self,
    ) -> Annotated[
        float | None, Column("Of a tree per request.", "a tree per request, at most", decimals=4)
    ]:
        """Tokens per step that no choice of a tree for every request exceeds."""
        return None if self.oracle is None else self.oracle.tree_per_request_at_most

    @property
    def tree_per_step(
        self,
    ) -> Annotated[
        float | None, Column("Of a tree per step.", "a tree per step, knowing the text", decimals=4)
    ]:
        """Tokens per step of the best tree of every step."""
        return None if self.oracle is None else self.oracle.tree_per_step

    @property
    def dynamic_tokens_per_step(
        self,
    ) -> Annotated[float | None, Column("Chosen anew.", "dynamic, same nodes", decimals=4)]:
        """Tokens per step of as many nodes chosen anew at every step."""
        return None if self.dynamic_tree is None else self.dynamic_tree.tokens_per_step

    @property
    def held_out_words(
        self,
    ) -> Annotated[
        str,
        Column("On the other half.", "held out (against the vector's tree)", of=("held_out",)),
    ]:
        """Tokens per step on the requests that did not choose the tree, and the gain."""
        if self.held_out is None:
            return ""
        return f"{fixed(self.held_out.tokens_per_step, 4)} ({self.held_out.gain_ratio:+.1%})"


@dataclass(frozen=True, kw_only=True, slots=True)
class StateTree(SizedTree):
    """The tree of one state; its nodes count prompt tokens."""

    share: Annotated[float, Column("Share of the steps in this state.")]
    tokens_per_step: TokensPerStep
    prompt_tokens: Annotated[Sequence[int], Column("Prompt tokens behind every candidate.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptedTrees(Row):
    """The trees of all states that emit most within a budget."""

    nodes: Annotated[int, Column("Nodes, root and prompt tokens included.")]
    depth: Annotated[int, Column("Levels at most, the root included.", "levels")]
    tokens_per_step: TokensPerStep
    law_tokens_per_step: Annotated[float, Column("Expected by the sibling vectors.")]
    certificate: Annotated[TreeCertificate, Column("How far they can be from the best.")]
    states: Annotated[Sequence[StateTree], Column("The tree of every state.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownState(Row):
    """A state of the trees of a budget, as the table shows it."""

    nodes: Annotated[int, Column("Nodes of the budget.")]
    tokens_per_step: TokensPerStep
    state: Annotated[str, Column("Its number.")]
    share: Annotated[str, Column("Share of the steps.", "of the steps")]
    candidates: Annotated[int, Column("Candidates of the tree.")]
    prompt_tokens: Annotated[int, Column("Prompt tokens of the tree.")]
    tokens_there: Annotated[float, Column("Emitted there.", "tokens/step there", decimals=4)]
    candidates_by_level: Annotated[str, Column("Candidates of every level.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetSpeed(Row):
    """How fast the tree that emits most within a budget is."""

    nodes: Annotated[int, Column("Nodes, the root included.")]
    tokens_per_s: Annotated[float, Column("Tokens of all requests per second.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class FastestTree(SizedTree):
    """The tree of most tokens per second at a batch and context."""

    batch: Annotated[int, Column("Requests that decode together.")]
    context: Annotated[int, Column("Cached tokens per request.")]
    levels: Annotated[int, Column("Levels, the root included.")]
    tokens_per_step: Annotated[float, Column("Per step.", "tokens/step", decimals=3)]
    step_s: Annotated[float, Column("Time of a step.", unit="s")]
    tokens_per_s: Annotated[float, Column("Of all requests.", "tokens/s", decimals=0)]
    speedup: Annotated[float, Column("Against no speculation.", decimals=2)]
    certificate: Annotated[TreeCertificate, Column("How far it can be from the best.")]
    budget_trees: Annotated[
        Sequence[BudgetSpeed], Column("The trees that emit most within a budget.")
    ]

    @property
    def gap_at_most(self) -> Annotated[str, Column("What the best can gain over it.")]:
        """The gap of the certificate in percent of the tokens per second."""
        return f"{(self.certificate.gap or 0.0) / self.tokens_per_s:.1%}"

    @property
    def budget_tokens_per_s(self) -> Annotated[list[float], Column("Of budgets.", decimals=0)]:
        """Tokens per second of the trees that emit most within a budget."""
        return [tree.tokens_per_s for tree in self.budget_trees]


@dataclass(frozen=True, kw_only=True)
class Trees(Answer):
    """The answer of `tree`.

    Attributes:
        remark: what is assumed of the acceptance; empty: nothing.
        trees: the tree of every budget, or the trees of all its states.
        fastest: the fastest tree at every context and batch, where a target is named; marked where
            the trees do not fit.
        title: where acceptance is known from.
        folder: that the files go to; None: none are written.
    """

    name: ClassVar[str] = "trees"
    unwritten: ClassVar[tuple[str, ...]] = ("title", "folder")
    remark: str
    trees: Sequence[BudgetTree] | Sequence[PromptedTrees]
    fastest: Sequence[FastestTree | MarkedCell] | None = None
    title: str
    folder: Path | None

    @property
    def own_rows(self) -> Sequence[BudgetTree | PromptedTrees]:
        """The trees."""
        return self.trees

    def documents(self) -> dict[str, dict[str, Any]]:
        """Every tree in the form that `--tree` reads."""
        documents: dict[str, dict[str, Any]] = {}
        for row in self.trees:
            if isinstance(row, PromptedTrees):
                documents[f"state-trees-{row.nodes}.json"] = {"states": row.states}
            else:
                documents[f"tree-{row.nodes}.json"] = row.tree.to_json()
        return documents

    def shown(self) -> Iterator[Table | str]:
        """The trees, what engines can run of them, how sure and how fast they are."""
        if states := [row for row in self.trees if isinstance(row, PromptedTrees)]:
            yield self._states(states)
        if trees := [row for row in self.trees if isinstance(row, BudgetTree)]:
            yield Table(
                title=self.title,
                rows=trees,
                columns=[
                    "nodes",
                    "depth",
                    "tokens_per_step",
                    "proof",
                    "nodes_by_level",
                    "one_tree_at_most",
                    "tree_per_request_at_most",
                    "tree_per_step",
                    "dynamic_tokens_per_step",
                    "held_out_words",
                ],
            )
            yield Table(
                title="what engines can run, and what it loses against the free tree",
                rows=[tree for row in trees for tree in row.runtime_trees],
                columns=["budget", "form_words", "settings", "nodes", "tokens_per_step", "lost"],
            )
        if sampling := [row.sampling for row in trees if row.sampling is not None]:
            yield Table(
                title="how sure the trees of the sibling vectors are",
                rows=sampling,
                columns=[
                    "nodes",
                    "recorded_tokens",
                    "mean_regret",
                    "low_tokens_per_step",
                    "safest_low",
                    "safest_levels",
                    "enough",
                ],
                caption=(
                    "low end: 9 draws of 10 emit more; enough: a tree chosen on so many loses at"
                    " most 1 % in 9 of 10"
                ),
            )
        if self.fastest:
            yield self._fastest(self.fastest)
            yield from reason_lines([r for r in self.fastest if isinstance(r, MarkedCell)], ())
        if self.remark:
            yield self.remark
        if self.folder is not None:
            yield f"written to {self.folder}"

    def _states(self, rows: Sequence[PromptedTrees]) -> Table:
        states = [
            ShownState(
                nodes=row.nodes,
                tokens_per_step=row.tokens_per_step,
                state=str(number),
                share=f"{state.share:.1%}",
                candidates=state.tree.draft_tokens,
                prompt_tokens=sum(state.prompt_tokens),
                tokens_there=state.tokens_per_step,
                candidates_by_level=state.nodes_by_level,
            )
            for row in rows
            for number, state in enumerate(row.states, 1)
        ]
        return Table(
            title=self.title,
            rows=states,
            columns=[
                "nodes",
                "tokens_per_step",
                "state",
                "share",
                "candidates",
                "prompt_tokens",
                "tokens_there",
                "candidates_by_level",
            ],
        )

    def _fastest(self, rows: Sequence[FastestTree | MarkedCell]) -> Table:
        inputs: Mapping[str, Any] = self.inputs
        return Table(
            title=(
                f"the fastest tree of {inputs['method']} for {inputs['model']} on"
                f" {inputs['device']}"
            ),
            rows=rows,
            columns=[
                "batch",
                "context",
                "nodes",
                "nodes_by_level",
                "tokens_per_step",
                "tokens_per_s",
                "speedup",
                "gap_at_most",
                "budget_tokens_per_s",
            ],
            spread={
                "budget_tokens_per_s": [f"tokens/s with {tree.nodes} nodes" for tree in self.trees]
            },
            mark="nodes_by_level",
            kind=FastestTree,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeSplit(Row):
    """How the requests of a batch share a budget of nodes."""

    nodes: Annotated[int, Column("Nodes of all trees, their roots included.")]
    requests: Annotated[int, Column("Requests of the batch.")]
    draft_tokens: Annotated[Sequence[int], Column("Draft tokens of every request.")]
    unused_nodes: Annotated[int, Column("Nodes that nothing is gained by.")]
    tokens_per_step: TokensPerStep
    uniform_tokens_per_step: Annotated[
        float, Column("With as many nodes for each.", "as many for each", decimals=4)
    ]
    gain_ratio: Annotated[float, Column("Against as many nodes for each.")]
    gain_by_chance_ratio: Annotated[
        float | None, Column("What requests that are all alike would seem to gain.")
    ]
    certificate: Annotated[TreeCertificate, Column("How far it can be from the best.")]

    @property
    def gain(self) -> Annotated[str, Column("Gain.", of=("gain_ratio",))]:
        """The gain in percent."""
        return f"{self.gain_ratio:+.1%}"

    @property
    def gain_of_equals(
        self,
    ) -> Annotated[str, Column("Of equal requests.", "by chance", of=("gain_by_chance_ratio",))]:
        """The gain of requests that are all alike, in percent."""
        return "" if self.gain_by_chance_ratio is None else f"{self.gain_by_chance_ratio:+.1%}"

    @property
    def split(
        self,
    ) -> Annotated[str, Column("By request.", "draft tokens by request", of=("draft_tokens",))]:
        """The draft tokens of the first requests."""
        more = " .." if self.requests > _SHOWN_REQUESTS else ""
        return " ".join(map(str, self.draft_tokens[:_SHOWN_REQUESTS])) + more


@dataclass(frozen=True, kw_only=True)
class NodeSplits(Answer):
    """The answer of `tree --split-over`.

    Attributes:
        splits: a row for every budget.
        title: whose requests they are.
    """

    name: ClassVar[str] = "splits"
    unwritten: ClassVar[tuple[str, ...]] = ("title",)
    splits: Sequence[NodeSplit]
    title: str

    @property
    def own_rows(self) -> Sequence[NodeSplit]:
        """The splits."""
        return self.splits

    def shown(self) -> Iterator[Table | str]:
        """How the nodes are shared, and what that gains over as many for each."""
        yield Table(
            title=self.title,
            rows=self.splits,
            columns=[
                "nodes",
                "tokens_per_step",
                "uniform_tokens_per_step",
                "gain",
                "gain_of_equals",
                "split",
            ],
            caption="of the whole batch; nodes: roots included",
        )
        if any(row.gain_by_chance_ratio is not None for row in self.splits):
            yield (
                "each request is known by the tokens recorded of it; by chance: what equal requests"
                " would seem to gain"
            )
