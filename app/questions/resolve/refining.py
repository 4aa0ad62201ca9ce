"""Which policies do --commit, --block and --cache state for a method that refines masked blocks?

`--commit RULE[:VALUES]` names a rule and its thresholds: `threshold:0.8` gives its first one,
`neighbours:confidence=0.9,tokens=4` names them; several values of one threshold, as in
`threshold:0.7,0.8,0.9`, are policies of their own. What an option leaves open is the method's own.
Leaves out what a policy commits and costs (`costmodel.laws.refined_method`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from app.questions.field import stated_words
from app.questions.groups import RefiningOptions, values_in
from app.questions.values import MethodName
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.refined_method import method_policy
from costmodel.method_library import load_method
from costmodel.optimizers.candidates.policy_grid import usual_thresholds
from hardware_profiles.errors import InputError, UnknownNameError
from simulator.scenario.refined import written_policy
from traces.kinds.refine_policy import CACHES, COMMIT_RULES, Cache, RefinePolicy

OPTIONS = ("commit", "block", "cache")
MOST_POLICIES = 20_000


def stated_policies(base: RefinePolicy, options: Mapping[str, Any]) -> list[RefinePolicy]:
    """Every policy that options state, in the order of rules, thresholds, blocks and caches.

    Args:
        base: the method's own, or a configuration's; what no option says stays as in it.
        options: `commit`, `block` and `cache`, as the command line gives them.

    Raises:
        InputError: a value that is none of its kind, out of range, or more policies than are
            searched.
        UnknownNameError: a rule or threshold that does not exist.
    """
    rules = stated_rules(options.get("commit"))
    blocks = options.get("block") or (base.block_tokens,)
    caches = stated_caches(options.get("cache")) or [base.cache]
    starts = [replace(base, commit=rule, at=at) for rule, at in rules] or [base]
    policies = [
        replace(start, block_tokens=block, cache=cache)
        for start, block, cache in product(starts, blocks, caches)
    ]
    return list(dict.fromkeys(policies))


def stated_rules(
    texts: Sequence[str] | None, *, usual: bool = False
) -> list[tuple[str, Mapping[str, float]]]:
    """The rules with their thresholds that --commit names; none where it is not given.

    Args:
        texts: of --commit.
        usual: a rule without thresholds stands for those that are worth trying, in place of its
            defaults.

    Raises:
        InputError: as `commit_rules`.
    """
    named_rules: list[tuple[str, Mapping[str, float]]] = []
    for text in texts or ():
        rules = commit_rules(text)
        bare = usual and ":" not in text
        named_rules += (
            [(rules[0][0], at) for at in usual_thresholds(rules[0][0])] if bare else rules
        )
    return named_rules


def stated_caches(text: str | None) -> list[Cache]:
    """The caches of --cache; none where it is not given.

    Raises:
        InputError: another word.
    """
    named = [part.strip() for part in text.split(",")] if text else []
    if unknown := [name for name in named if name not in CACHES]:
        raise InputError(f"must be one of {', '.join(CACHES)}", key="--cache", value=unknown[0])
    return [cache for cache in CACHES if cache in named]


def commit_rules(text: str) -> list[tuple[str, dict[str, float]]]:
    """The rules with their thresholds that one --commit names: every combination of the values that
    it lists.

    Raises:
        InputError: no number, or a threshold named twice.
        UnknownNameError: a rule or threshold that does not exist.

    Example:
        >>> commit_rules("threshold:0.7,0.9")
        [('threshold', {'confidence': 0.7}), ('threshold', {'confidence': 0.9})]
        >>> commit_rules("capped:tokens=4")
        [('capped', {'tokens': 4})]
    """
    rule, colon, listed = text.partition(":")
    if rule not in COMMIT_RULES:
        raise UnknownNameError("commit rule", rule, COMMIT_RULES, key="--commit")
    values: dict[str, list[float]] = {}
    key = next(iter(COMMIT_RULES[rule].at))
    for part in listed.split(",") if colon else ():
        name, named, number = part.rpartition("=")
        if named:
            key = name.strip()
            if key in values:
                raise InputError(f"names {key} twice", key="--commit", value=text)
        values.setdefault(key, []).append(_number(number, text))
    count = math.prod(len(options) for options in values.values())
    if count > MOST_POLICIES:
        raise InputError(f"must name at most {MOST_POLICIES} settings", key="--commit", value=count)
    combinations = [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]
    for at in combinations:
        try:
            RefinePolicy(commit=rule, at=at)
        except UnknownNameError as error:
            raise UnknownNameError(error.kind, error.name, error.known, key="--commit") from None
        except InputError as error:
            where = (error.key or "").removeprefix("at.")
            raise InputError(
                f"{where} {error.message}", key="--commit", value=error.value
            ) from None
    return [(rule, at) for at in combinations]


def _number(text: str, option: str) -> float:

    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(
            "must be RULE or RULE:VALUES with numbers, such as threshold:0.8",
            key="--commit",
            value=option,
        )
    return int(value) if value == int(value) else value


def refined_by(
    options: Mapping[str, Any], base: DecodingConfiguration, method: str
) -> dict[str, Any]:
    """Changes to a configuration for what options say of masked blocks; none where they say
    nothing.

    Args:
        options: on the command line.
        base: the configuration; what options leave open stays as it says, or as the method's own
            rule has it.
        method: slug that it will have.

    Raises:
        InputError: several policies, options out of range, or a method that no policy stands for.
    """
    stated = [f"--{name}" for name in (*OPTIONS, "canvas") if options.get(name)]
    if not stated:
        return {}
    entry = load_method(method)
    if entry.refine is None:
        raise InputError(
            f"{method} refines no masked blocks; name a --method that does", key=stated[0]
        )
    own = base.refine if method == base.method else None
    policies = stated_policies(own or method_policy(entry), options)
    if len(policies) > 1:
        raise InputError(
            "one policy is taken here; `rooftree optimize` compares several",
            key=stated[0],
            value=len(policies),
        )
    return {
        "refine": policies[0],
        **({"canvas_tokens": options["canvas"]} if options.get("canvas") else {}),
    }


def refines(method: str, options: Mapping[str, Any]) -> bool:
    """Whether a --method refines masked blocks.

    Args:
        method: slug; empty where none is named.
        options: `commit`, `block`, `cache` and `canvas`.

    Raises:
        InputError: options of masked blocks beside another method.
    """
    if method and load_method(method).refine is not None:
        return True
    stated = [name for name, value in options.items() if value is not None]
    if stated:
        raise InputError(
            "belongs to a --method that refines masked blocks, such as fast-dllm",
            key=f"--{stated[0]}",
        )
    return False


def refine_values(refining: RefiningOptions, section: Any) -> dict[str, Any]:
    """Keys of a scenario for what options say of masked blocks; the file's stand where they say
    nothing.

    Args:
        refining: the options.
        section: the scenario's `speculation` with the other options over it, unchecked.

    Raises:
        InputError: no method that refines masked blocks, several policies, or options out of range.
    """
    options = {name: v for name, v in values_in(RefiningOptions, refining).items() if v}
    if not options:
        return {}
    table = section if isinstance(section, Mapping) else {}
    named = table.get("method")
    if not isinstance(named, str) or not named:
        rule = "needs the method whose masked blocks it is about (--method)"
        name, value = next(iter(options.items()))
        raise InputError(rule, key=f"--{name}", value=",".join(stated_words(value)))
    slug, written = MethodName().read(named), table.get("refine")
    entry = load_method(slug)
    policy = None
    if entry.refine is not None and isinstance(written, Mapping):
        policy = written_policy(written, method_policy(entry))
    base = DecodingConfiguration(deployment=DeploymentNames(model=""), method=slug, refine=policy)
    changes = refined_by(options, base, slug)
    values: dict[str, Any] = {"speculation.refine": changes["refine"].as_json()}
    if "canvas_tokens" in changes:
        values["speculation.canvas_tokens"] = changes["canvas_tokens"]
    return values
