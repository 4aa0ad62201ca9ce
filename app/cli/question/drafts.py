"""Which dynamic tree or stop rule do options name, and what do they emit on a recording?"""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from costmodel.answers.estimate import Setting
    from costmodel.laws.acceptance import Acceptance, Law
    from costmodel.method import Shape, Stop
    from traces.kinds.acceptance import AcceptanceTrace

DynamicTree = Annotated[
    str,
    typer.Option(
        "--dynamic-tree",
        help=(
            "A tree chosen anew at every step, as nodes=16,depth=6,width=4,beam=4,least=0.02; only"
            " nodes is needed."
        ),
    ),
]
StopRule = Annotated[
    str,
    typer.Option(
        "--stop",
        help=(
            "When a draft ends before K: probability:0.6, product:0.5,least=1,most=8, ema or"
            " goodput; a dynamic tree: gain:0.1."
        ),
    ),
]
_SHAPE_KEYS = {
    "nodes": "nodes",
    "depth": "depth",
    "width": "width",
    "beam": "beam",
    "least": "least_probability",
}
_STOP_KEYS = {"least": "least_tokens", "most": "most_tokens"}


def dynamic_shape(text: str) -> "Shape | None":
    """The shape that --dynamic-tree names; None for an empty text.

    Raises:
        InputError: an unknown key, a value out of range, or no number of nodes.
    """
    from costmodel.method import Shape
    from hardware_profiles.errors import InputError

    if not text:
        return None
    given = _numbers(text, _SHAPE_KEYS, "--dynamic-tree")
    least = given.pop("least_probability", 0.0)
    if given.get("nodes", 0) < 1:
        raise InputError("needs a number of nodes >= 1", key="--dynamic-tree", value=text)
    return Shape(
        kind="dynamic_tree",
        least_probability=least,
        **{key: int(value) for key, value in given.items()},
    )


def stop_rule(text: str) -> "Stop | None":
    """The rule that --stop names; None for an empty text.

    Raises:
        InputError: an unknown rule or key, or a value that is no number.
    """
    from typing import get_args

    from costmodel.method import Stop
    from costmodel.method import StopRule as Rule
    from hardware_profiles.errors import InputError

    if not text:
        return None
    first, _, others = text.partition(",")
    name, _, at = first.partition(":")
    known: dict[str, Rule] = {each: each for each in get_args(Rule) if each != "length"}
    if name not in known:
        raise InputError(
            f"must be one of {', '.join(known)}, as probability:0.6", key="--stop", value=text
        )
    if name == "exit":
        rule = (
            "no kind of recording tells acceptance by exit layer; record each layer as a drafter of"
            " its own"
        )
        raise InputError(rule, key="--stop", value=text)
    numbers = {"least_tokens": 0.0} if name == "goodput" else {}  # which may find that nothing pays
    numbers |= _numbers(others, _STOP_KEYS, "--stop") if others else {}
    threshold = _numbers(f"at={at}", {"at": "at"}, "--stop")["at"] if at else 0.0
    return Stop(
        rule=known[name], at=threshold, **{key: int(value) for key, value in numbers.items()}
    )


def law_of(recorded: "AcceptanceTrace", method: str, lengths: list[int]) -> "Law":
    """The law by which a method verifies chains on a recording."""
    from costmodel.laws.acceptance import law_for
    from costmodel.method_library import load_method

    verify = load_method(method).verify
    return law_for(recorded, verify.rule, lengths, at=verify.at)


def varying(
    recorded: "AcceptanceTrace",
    law: "Law",
    lengths: list[int],
    dynamic: "Shape | None",
    stop: "Stop | None",
    seed: int,
    at: "tuple[Setting, list[int], list[int]] | None" = None,
) -> "list[Acceptance]":
    """A dynamic tree, or chains that end by a rule, replayed on a recording; their bootstrap draws
    are paired.

    `at` names the setting, batches and contexts whose seconds a controller of goodput weighs.

    Raises:
        InputError: more than the recording tells.
    """
    import numpy as np

    from costmodel.laws.acceptance import from_replay
    from costmodel.laws.drafting import dynamic_tree
    from costmodel.optimizers.candidates.dynamic_candidates import stopped_candidates
    from hardware_profiles.errors import InputError
    from traces.replay.statistics import request_draws
    from traces.replay.walk import replay_chain

    draws = request_draws(recorded.prompt_kinds, generator=np.random.default_rng(seed))
    if dynamic is not None:
        return [dynamic_tree(recorded, dynamic, draws, stop=stop)]
    assert stop is not None
    if at is None and stop.rule == "goodput":
        raise InputError(
            "weighs seconds, which `predict` and `optimize` know", key="--stop", value=stop.rule
        )
    setting, batches, contexts = at or (None, [], [])
    plain = [from_replay(replay_chain(recorded, 0), draws)] if 0 in lengths else []
    most = [k for k in lengths if k]
    return plain + stopped_candidates(
        setting, recorded, most, stop, draws, law, batches=batches, contexts=contexts
    )


def _numbers(text: str, keys: dict[str, str], option: str) -> dict[str, float]:
    """Comma-separated KEY=NUMBER pairs, under the names of the fields that the keys stand for."""
    from hardware_profiles.errors import InputError

    found: dict[str, float] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        try:
            found[keys[key.strip()]] = float(value)
        except (KeyError, ValueError):
            rule = f"needs numbers as KEY=NUMBER, of {', '.join(keys)}"
            raise InputError(rule, key=option, value=part) from None
        whole = keys[key.strip()] not in ("least_probability", "at")
        if not 0 <= found[keys[key.strip()]] < 1e6 or (whole and found[keys[key.strip()]] % 1):
            raise InputError("must be a number >= 0, whole where it counts", key=option, value=part)
    return found
