"""With which policy does the diffusion page begin? What is not chosen on it is what `optimize` recommends.

Leaves out what a policy does (`page`) and the front of all of them (`front`).
"""

from collections.abc import Sequence
from functools import lru_cache

from app.answers.optimize.masked import rows_at
from app.dashboard.answers.diffusion.recordings import (
    Recording,
    names_beside,
    recording_name,
    shipped_recording,
)
from app.dashboard.asking import Asked
from app.dashboard.question import WHERE, scenario, where_asked
from app.dashboard.state import State, milliseconds, with_values
from app.questions.optimize import OptimizeQuestion
from costmodel.answers.workload import Limits
from costmodel.laws.refined_method import method_policy
from costmodel.method_library import load_method
from costmodel.optimizers.candidates.policy_grid import (
    Thresholds,
    policy_grid,
    usual_thresholds,
)
from costmodel.optimizers.drafters.sources import prompts_sources
from costmodel.optimizers.recommend import recommend
from costmodel.optimizers.unmet import NothingAllowedError
from hardware_profiles.errors import InputError
from traces.kinds.refine_policy import CACHES, COMMIT_RULES, Cache, RefinePolicy

# an entry that refines one block after the other; the policy replaces its rule, block and cache
METHOD = "fast-dllm"
POLICY = ("commit", "threshold", "block", "cache")
ASKED = (*WHERE, "agreement_ratio", "slo_tpot", *POLICY)
USUAL_CACHE: Cache = "none"


def own_policy() -> RefinePolicy:
    """The method's own policy, with its usual thresholds."""
    return method_policy(load_method(METHOD))


def fallback(state: State, recorded: Cache = USUAL_CACHE) -> RefinePolicy:
    """What a state has chosen, with the rule's own threshold, the usual block and the recorded cache
    where it leaves them open.

    Args:
        state: the page's question.
        recorded: cache of the recording.

    Raises:
        InputError: a threshold out of the rule's range.
    """
    own = own_policy()
    rule = state.commit or own.commit
    return RefinePolicy(
        commit=rule,
        at={_first(rule): state.threshold} if state.threshold else {},
        block_tokens=state.block or own.block_tokens,
        cache=_cache(state) or recorded,
    )


def recordings_of(state: State) -> list[Recording]:
    """The shipped recordings that a state's policy may be chosen on.

    Raises:
        InputError: there is none of that name, or none beside that cache.
    """
    beside = with_values(state, {"cache": state.cache or USUAL_CACHE})
    first = shipped_recording(recording_name(beside))
    if state.cache:
        return [first]
    return [shipped_recording(name) for name in names_beside(beside, first)]


def asked_policy(state: State, traces: Sequence[str]) -> Asked:
    """What `optimize` is asked of a state for what it leaves open.

    Args:
        state: the page's question.
        traces: recordings as a command line names them.
    """
    commit = state.commit
    if state.threshold:
        rule = commit or own_policy().commit
        commit = f"{rule}:{_first(rule)}={state.threshold:g}"
    return Asked(
        verb=OptimizeQuestion,
        values={
            **where_asked(state),
            "method": METHOD,
            "trace": tuple(traces),
            "commit": commit,
            "block": str(state.block) if state.block else None,
            "cache": state.cache,
            "quality_floor": f"{state.agreement_ratio:g}",
            "batch": str(state.batch),
            "context": str(state.context),
            "slo_tpot": state.slo_tpot,
            "seed": state.seed,
        },
    )


def recommended_policy(state: State, recordings: Sequence[Recording]) -> RefinePolicy | None:
    """The policy that `optimize` recommends of those that a state leaves open; None where none
    agrees enough, fits, is within the limit, or can be answered for.

    Args:
        state: the page's question.
        recordings: of a cache each.

    Raises:
        InputError: a threshold out of the rule's range.
    """
    fallback(state)
    if any(recording.path is None for recording in recordings):
        return _best(state, recordings)
    asked = with_values(State(), {name: getattr(state, name) for name in ASKED})
    return _shipped_best(
        asked, tuple(recording.path.stem for recording in recordings if recording.path)
    )


def _best(state: State, recordings: Sequence[Recording]) -> RefinePolicy | None:
    prompts = [recording.prompts for recording in recordings]
    policies = policy_grid(
        own_policy(),
        {part.cache: part.anchors for part in prompts},
        rules=_rules(state),
        blocks=[state.block] if state.block else [],
        caches=[cache] if (cache := _cache(state)) else [],
    )
    try:
        result = recommend(
            scenario(state, method=METHOD),
            prompts_sources(prompts, METHOD),
            batches=[state.batch],
            contexts=[state.context],
            policies=policies,
            limits=Limits(tpot_s=milliseconds(state.slo_tpot)),
            floor=0.0,
            seed=state.seed,
        )
    except (NothingAllowedError, InputError):
        return None
    floor = state.agreement_ratio
    rows = rows_at(result, batch=state.batch, context=state.context, floor=floor, seed=state.seed)
    if not rows or not rows[0].meets_floor:
        return None
    return next(policy for policy in policies if policy.name == rows[0].policy)


@lru_cache(maxsize=64)
def _shipped_best(state: State, names: tuple[str, ...]) -> RefinePolicy | None:
    return _best(state, [shipped_recording(name) for name in names])


def _rules(state: State) -> list[tuple[str, Thresholds]]:
    """The chosen rule with the thresholds to try; none where neither is chosen."""
    if not state.commit and not state.threshold:
        return []
    rule = state.commit or own_policy().commit
    if state.threshold:
        return [(rule, {_first(rule): state.threshold})]
    return [(rule, at) for at in usual_thresholds(rule)]


def _cache(state: State) -> Cache | None:
    return next((cache for cache in CACHES if cache == state.cache), None)


def _first(rule: str) -> str:
    return next(iter(COMMIT_RULES[rule].at))
