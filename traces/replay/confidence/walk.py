"""How many passes does another policy take on recorded prompts, and how often does it write what
one token a pass does?

All canvases are decoded again together, pass by pass, and what the model would have been sure of is
looked up. Three answers are exact: rules that commit by number alone, a recorded policy from its
own run, and drafts of later states that are confirmed (`self_verified`). For any other policy the
nearest recorded state stands for the one that was never reached, over all anchors of the prompt;
states that hold less, and states that hold more, span a heuristic interval. States are told by what
they hold, never by their number: that is 33 to 43 % off. Leaves out cost, and rules that need more
than the recording holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.confidence import GROUP_POSITIONS, ConfidenceTrace
from traces.kinds.naming import naming
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.agreement import Agreement, lowered
from traces.replay.confidence.anchors import Anchors, packed, pooled
from traces.replay.confidence.decode import Decoded, Pass, Seen, decode
from traces.replay.confidence.rules import closed_form_passes
from traces.replay.confidence.self_verified import self_verified_passes

Counts = NDArray[np.int64]
After = Callable[[Pass, NDArray[np.bool_]], None]
_shifts: WeakKeyDictionary[Anchors, float] = WeakKeyDictionary()
How = Literal["closed form", "recorded", "confirmed drafts", "nearest state"]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RefineReplay:
    """What a policy does on P recorded prompts.

    Attributes:
        policy: which.
        prompts: one text each.
        prompt_kinds: their strata.
        tokens: int64[P], tokens committed.
        steps: int64[P], passes.
        full_steps: int64[P], those of them that compute prompt and canvas; the others compute what
            the cache leaves.
        lower, upper: int64[P], passes by states that hold more, and by states that hold less;
            `steps` where exact.
        agreement: share of positions with the token that the one-token-a-pass run has there, with
            bounds.
        how: what the answer rests on.
        boldest: tokens per pass of the recorded policy that commits most.
    """

    policy: RefinePolicy
    prompts: tuple[str, ...]
    prompt_kinds: tuple[str, ...]
    tokens: Counts
    steps: Counts
    full_steps: Counts
    lower: Counts
    upper: Counts
    agreement: Agreement
    how: How
    boldest: float

    @property
    def tokens_per_step(self) -> float:
        """Tokens per pass, pooled: sum of tokens over sum of passes."""
        return float(self.tokens.sum() / self.steps.sum())

    @property
    def tokens_per_step_interval(self) -> tuple[float, float]:
        """The same by states that hold less and by states that hold more: a heuristic interval, no
        bound.
        """
        total = float(self.tokens.sum())
        return total / float(self.upper.sum()), total / float(self.lower.sum())

    @property
    def is_exact(self) -> bool:
        """Whether live decoding of the same prompts would take exactly these passes."""
        return self.how != "nearest state"

    @property
    def is_beyond_anchors(self) -> bool:
        """Whether it commits more a pass than anything that was recorded, where nearest states
        mislead more.
        """
        return not self.is_exact and self.tokens_per_step > self.boldest


def replay_policy(
    anchors: Anchors | ConfidenceTrace | Sequence[ConfidenceTrace],
    policy: RefinePolicy,
    *,
    interval: bool = True,
) -> RefineReplay:
    """Decode recorded prompts again by another policy.

    Args:
        anchors: recordings, or what `pooled` made of them.
        policy: how.
        interval: walk twice more, for `lower` and `upper`.

    Raises:
        InputError: recordings that do not go together or lack what the rule reads, a block that
            does not divide the canvas, another cache than recorded, or a rule that nearest states
            are known to mislead.
    """
    states = anchors if isinstance(anchors, Anchors) else pooled(anchors)
    with naming(states.file):
        return _replayed(states, policy, interval)


def _replayed(states: Anchors, policy: RefinePolicy, interval: bool) -> RefineReplay:
    policy.check_canvas(states.canvas_tokens)
    runs = states.run_of(policy)
    static = static_run(states, policy)
    if policy.commit == "self_verified":
        return _confirmed(states, policy, static)
    exact_steps = closed_form_passes(policy, states.canvas_tokens)
    check_answerable(states, policy, recorded=runs is not None)
    usable = usable_runs(states, runs)
    decoded = walked(states, policy, usable)
    if runs is not None and not np.array_equal(decoded.steps, states.steps[runs]):
        raise InputError(
            "the recording contradicts its policy, which takes other passes",
            key="policies",
            value=policy.name,
        )
    exact = runs is not None or exact_steps is not None
    lower = upper = decoded.steps
    if interval and not exact:
        # states that hold less than the canvas (1, SUBSET) are less sure of the rest, those that
        # hold more (2, SUPERSET) surer: passes lie between, as a rule
        others = [decoded.steps, *(walked(states, policy, usable, mode).steps for mode in (1, 2))]
        lower, upper = np.min(others, axis=0), np.max(others, axis=0)
    same = _agreement(states, decoded.tokens, static)
    return RefineReplay(
        policy=policy,
        prompts=states.prompts,
        prompt_kinds=states.prompt_kinds,
        tokens=(decoded.tokens != states.mask_id).sum(axis=1),
        steps=decoded.steps,
        full_steps=decoded.begun if policy.cache != "none" else decoded.steps,
        lower=lower,
        upper=upper,
        agreement=(
            Agreement.exact(same) if runs is not None else lowered(same, log_odds_shift(states))
        ),
        how=(
            "recorded"
            if runs is not None
            else "closed form"
            if exact_steps is not None
            else "nearest state"
        ),
        boldest=boldest_anchor(states),
    )


def log_odds_shift(states: Anchors) -> float:
    """By how much the log odds of a token that agrees are too high, replayed without the policy's
    own runs.

    The mean of anchors, none counted below 0. 0 where there is nothing to learn it from: no run of
    one token a pass, or no other anchor of a rule that nearest states can answer for.
    """
    if states not in _shifts:
        shifts = [
            shift
            for place in range(len(states.policies))
            if (shift := _left_out(states, place)) is not None
        ]
        _shifts[states] = float(np.mean(shifts)) if shifts else 0.0
    return _shifts[states]


def _left_out(states: Anchors, place: int) -> float | None:
    """The shift of one anchor, or None where it determines none."""
    policy = states.policies[place]
    own, static = states.run_of(policy), static_run(states, policy)
    by_number = closed_form_passes(policy, states.canvas_tokens) is not None
    if (
        own is None
        or static is None
        or by_number
        or policy.rule.own_anchor
        or policy.commit == "self_verified"
    ):
        return None
    others = ~np.isin(np.arange(len(states.policy_of_run)), own)
    wrote = states.final_ids[static]
    replayed = float(
        (walked(states, policy, usable_runs(states, None) & others).tokens == wrote).mean()
    )
    true = float((states.final_ids[own] == wrote).mean())
    if not 0.0 < true < 1.0 or not 0.0 < replayed < 1.0:
        return None
    # a replay that agrees less often than the run itself is not corrected upwards
    return max(0.0, math.log(replayed / (1.0 - replayed)) - math.log(true / (1.0 - true)))


def usable_runs(states: Anchors, runs: Counts | None) -> NDArray[np.bool_]:
    """Runs whose states a replay may take: those of the recorded policy, or where there are none,
    all.

    Args:
        states: recorded states.
        runs: int64[P], the policy's own run of every prompt; None: it was not recorded.

    Returns:
        bool[runs].
    """
    everyone = np.ones(len(states.policy_of_run), dtype=np.bool_)
    return everyone if runs is None else np.isin(np.arange(len(everyone)), runs)


def nearest(
    states: Anchors,
    forward: Pass,
    needed: NDArray[np.bool_],
    usable: NDArray[np.bool_],
    mode: int = 0,
) -> NDArray[np.int32]:
    """The cell of the nearest recorded state at every needed position of the active canvases; -1
    where none is.

    Args:
        states: recorded states.
        forward: the pass to answer.
        needed: bool[P, L], positions whose cell is looked up.
        usable: bool[runs], runs whose states may answer.
        mode: of `compiled.nearest_cells`: which states may stand in.

    Returns:
        int32[P, L].
    """
    # numba takes half a second to load: only where it is needed
    from traces.replay.confidence import compiled

    places = np.zeros(needed.shape, dtype=np.int32)
    compiled.nearest_cells(
        forward.active,
        packed(~forward.masked),
        forward.tokens,
        needed,
        states.row_offsets,
        states.run_of_row,
        usable,
        states.final_ids,
        states.revealed,
        states.computed,
        states.first_cell,
        mode,
        places,
    )
    return places


def walked(
    states: Anchors,
    policy: RefinePolicy,
    usable: NDArray[np.bool_],
    mode: int = 0,
    after: After | None = None,
) -> Decoded:
    """Decode with what the recorded states of `usable` runs say; `mode` as in `compiled`, `after`
    as in `decode`.

    Prompts are walked in groups of `GROUP_POSITIONS` canvas positions: what a walk takes does not
    grow with the file.

    Args:
        states: recorded states.
        policy: of the replay.
        usable: bool[runs], runs whose states may answer.
        mode: of `compiled.nearest_cells`: which states may stand in.
        after: called after every pass; None: nothing is.
    """
    # canvases are independent of each other, so groups change memory and no result
    most = max(1, GROUP_POSITIONS // states.canvas_tokens)
    groups = [states.of_prompts(slice(at, at + most)) for at in range(0, len(states.prompts), most)]
    decoded = [_group_walked(group, policy, usable, mode, after) for group in groups]
    return Decoded(
        tokens=np.concatenate([part.tokens for part in decoded]),
        steps=np.concatenate([part.steps for part in decoded]),
        begun=np.concatenate([part.begun for part in decoded]),
    )


def _group_walked(
    states: Anchors, policy: RefinePolicy, usable: NDArray[np.bool_], mode: int, after: After | None
) -> Decoded:
    def look(forward: Pass) -> Seen:
        places = nearest(states, forward, forward.needed, usable, mode)
        if np.any(places[forward.needed] < 0):
            raise InputError(
                "no anchor computed all positions that this policy asks for",
                key="block_tokens",
                value=policy.block_tokens,
            )
        fields = {
            name: states.values[places, 1 + states.names.index(name)] for name in policy.rule.needs
        }
        return Seen(ids=states.top_ids[places], doubt=states.values[places, 0], fields=fields)

    return decode(
        policy,
        states.prompts,
        look,
        canvas_tokens=states.canvas_tokens,
        mask_id=states.mask_id,
        end_id=states.end_id,
        after=after,
    )


def check_answerable(states: Anchors, policy: RefinePolicy, *, recorded: bool) -> None:
    """Refuse what the recordings cannot answer for a policy that they did not follow.

    Args:
        states: recorded states.
        policy: of the replay.
        recorded: whether a run followed this very policy.

    Raises:
        InputError: a field that the rule reads and not every trace has, a cache that was not
            recorded, or a rule that is replayed from its own recordings alone.
    """
    for name in policy.rule.needs:
        if name not in states.names:
            raise InputError(
                f"the rule {policy.commit} reads it, and not every trace has it", key=name
            )
    if recorded:
        return
    cached = {
        (
            recorded_policy.cache,
            recorded_policy.block_tokens if recorded_policy.cache != "none" else 0,
        )
        for recorded_policy in states.policies
    }
    if (policy.cache, policy.block_tokens if policy.cache != "none" else 0) not in cached:
        caches = ", ".join(
            sorted(f"{cache} (blocks of {block})" if block else cache for cache, block in cached)
        )
        raise InputError(
            f"must be as recorded, {caches}: a cache changes what the model is sure of, and the"
            " method's own is another; state the recorded one",
            key="cache",
            value=policy.cache,
        )
    if policy.rule.own_anchor and all(
        recorded_policy.commit != policy.commit for recorded_policy in states.policies
    ):
        raise InputError(
            "this rule is replayed from recordings of its own alone: nearest states of other rules"
            " are 12 to 18 % off",
            key="commit",
            value=policy.commit,
        )


def static_run(states: Anchors, policy: RefinePolicy) -> Counts | None:
    """Every prompt's run of one token a pass: of the same block if there is one.

    Args:
        states: recorded states.
        policy: of the replay.

    Returns:
        int64[P]; None where no such run was recorded.
    """
    static = [
        recorded_policy
        for recorded_policy in states.policies
        if recorded_policy.commit == "static" and recorded_policy.at["tokens"] == 1
    ]
    # sorted is stable: runs of the same block come first, others as recorded
    for recorded_policy in sorted(
        static, key=lambda item: item.block_tokens != policy.block_tokens
    ):
        if (runs := states.run_of(recorded_policy)) is not None:
            return runs
    return None


def boldest_anchor(states: Anchors) -> float:
    """Tokens per pass of the recorded policy that commits most."""
    tokens = (states.final_ids != states.mask_id).sum(axis=1)
    sums = [np.bincount(states.policy_of_run, weights=counts) for counts in (tokens, states.steps)]
    return float((sums[0] / np.maximum(sums[1], 1)).max())


def _agreement(
    states: Anchors, tokens: NDArray[np.int32], static: Counts | None
) -> NDArray[np.float64]:
    if static is None:
        return np.full(len(tokens), np.nan)
    same: NDArray[np.float64] = (tokens == states.final_ids[static]).mean(axis=1)
    return same


def _confirmed(states: Anchors, policy: RefinePolicy, static: Counts | None) -> RefineReplay:
    """Passes of drafts that are confirmed, from the run of one token a pass: the text is that
    run's.
    """
    one = RefinePolicy(commit="static", block_tokens=policy.block_tokens, cache=policy.cache)
    runs = states.run_of(one)
    if runs is None:
        raise InputError(
            "needs a recording of one token a pass with the same block and cache",
            key="commit",
            value=policy.commit,
        )
    if np.any(states.steps[runs] != states.canvas_tokens):
        raise InputError("must take a pass per position", key="policies", value=one.name)
    steps = self_verified_passes(states, runs, policy)
    canvas = np.full(len(runs), states.canvas_tokens, dtype=np.int64)
    same = Agreement.exact(_agreement(states, states.final_ids[runs], static))
    return RefineReplay(
        policy=policy,
        prompts=states.prompts,
        prompt_kinds=states.prompt_kinds,
        tokens=canvas,
        steps=steps,
        full_steps=steps,
        lower=steps,
        upper=steps,
        agreement=same,
        how="confirmed drafts",
        boldest=boldest_anchor(states),
    )
