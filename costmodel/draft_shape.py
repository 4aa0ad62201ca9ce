"""What does a step draft, in the words of every door: `off`, `chain:5`, `tree:16`, `dynamic:60x6`?

One spelling, read and written here, so that what an answer prints can be asked again word for word.
Leaves out what a shape emits on a source of acceptance
(`costmodel.optimizers.candidates.asked_shapes`).
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from costmodel.laws.acceptance import Acceptance, several_chains
from costmodel.laws.own_draft import OWN_TREE
from costmodel.method import Shape, Stop, StopRule
from hardware_profiles.errors import InputError
from traces.kinds.tree import Tree

DraftKind = Literal["off", "own", "chain", "chains", "tree", "dynamic", "prompted"]
MOST_NODES = 4095
FORMS = (
    "off, chain:K, chains:NxK, tree:NODES, tree:FILE, dynamic:NODESxDEPTH, prompted:NODES or own,"
    " as in off,chain:5,tree:16"
)
_LIMITS = {
    "width": "width",
    "beam": "beam",
    "least": "least_probability",
    "cost": "cost_ratio",
    "free": "free_nodes",
}
_SHARES = ("least_probability", "cost_ratio", "at")
_STOP_KEYS = {"least": "least_tokens", "most": "most_tokens", "unlikely": "unlikely_tokens"}
_BUILT_FROM = ("trace", "vector")


@dataclass(frozen=True, kw_only=True, slots=True)
class DraftShape:
    """What a step drafts.

    Args:
        kind: `off` drafts nothing; `own` is the shape of the method's entry; `chain` is K tokens
            one after another; `chains` are several such side by side; `tree` is the same tree at
            every step; `dynamic` is a tree chosen anew at every step; `prompted` is a tree whose
            candidates carry prompt tokens.
        nodes: draft tokens, root excluded; K of one chain where there are several.
        paths: number of chains.
        built_from: what a tree of so many nodes is built from: the recording's own paths (`trace`)
            or the acceptance by level and rank (`vector`); empty for a tree of a file.
        file: of a tree's JSON; None: it is built, or handed over.
        tree: that is handed over by a program or a configuration; a text cannot name it.
        limits: numbers of a dynamic tree; None for the other kinds.
        stop: when a draft ends before that; None: it does not.
    """

    kind: DraftKind
    nodes: int = 0
    paths: int = 1
    built_from: str = ""
    file: Path | None = None
    tree: Tree | None = None
    limits: Shape | None = None
    stop: Stop | None = None

    def __str__(self) -> str:
        return self._drafted() + ("" if self.stop is None else f"+{stop_text(self.stop)}")

    def _drafted(self) -> str:
        match self.kind:
            case "off" | "own":
                text: str = self.kind
            case "chains":
                text = f"chains:{self.paths}x{self.nodes}"
            case "tree" if self.tree is not None:
                text = f"a given tree of {self.nodes}"
            case "tree" if self.file is not None:
                text = f"tree:{self.file}"
            case "tree":
                text = f"tree:{self.nodes}" + (":vector" if self.built_from == "vector" else "")
            case "dynamic":
                assert self.limits is not None
                text = f"dynamic:{_limits_text(self.limits)}"
            case _:
                text = f"{self.kind}:{self.nodes}"
        return text

    @property
    def is_built(self) -> bool:
        """Whether it is a tree of so many nodes that is built from a recording."""
        return self.kind == "tree" and self.file is None and self.tree is None

    @property
    def needs_recording(self) -> bool:
        """Whether acceptance by position does not determine what the shape emits."""
        return self.kind in ("chains", "dynamic") or self.is_built or self.stop is not None

    @property
    def drafts(self) -> bool:
        """Whether anything is drafted."""
        return self.kind != "off"


OFF = DraftShape(kind="off")
OWN = DraftShape(kind="own")


def chain(draft_tokens: int, stop: Stop | None = None) -> DraftShape:
    """A chain of K draft tokens; K = 0 is `off`."""
    return DraftShape(kind="chain", nodes=draft_tokens, stop=stop) if draft_tokens else OFF


def dynamic(limits: Shape, stop: Stop | None = None) -> DraftShape:
    """A tree that every step chooses anew within limits."""
    return DraftShape(kind="dynamic", nodes=limits.nodes, limits=limits, stop=stop)


def tree_of(file: Path) -> DraftShape:
    """The tree in a file."""
    return DraftShape(kind="tree", file=file)


def given_tree(tree: Tree) -> DraftShape:
    """A tree that is handed over, and has no spelling."""
    return DraftShape(kind="tree", nodes=tree.draft_tokens, tree=tree)


def shape_of(a: Acceptance) -> DraftShape:
    """What an acceptance is of."""
    if a.draft_tokens == 0:
        return OFF
    if a.tree is not None:
        return _static_shape(a, a.tree)
    if a.shape is None:
        return chain(a.draft_tokens, a.stop)
    if a.shape.kind == "dynamic_tree":
        return dynamic(a.shape, a.stop)
    is_prompted = a.shape.kind == "state_trees"
    return DraftShape(kind="prompted", nodes=a.draft_tokens) if is_prompted else OWN


def _static_shape(a: Acceptance, tree: Tree) -> DraftShape:
    """A tree by what it was built from, by its file, or as the chains that it consists of; the
    method's own, which a recording names, as `own`.
    """
    if a.tree_source == OWN_TREE:
        return OWN
    if a.tree_source in _BUILT_FROM:
        return DraftShape(kind="tree", nodes=a.draft_tokens, built_from=a.tree_source)
    if a.tree_source:
        return tree_of(Path(a.tree_source))
    length, rest = divmod(a.draft_tokens, paths := tree.level_widths()[0])
    if paths > 1 and not rest and tree == several_chains(paths, length):
        return DraftShape(kind="chains", nodes=length, paths=paths)
    return given_tree(tree)


def read_shapes(text: str, *, key: str = "shape") -> list[DraftShape]:
    """The shapes of a text, separated by commas.

    Args:
        text: such as `off,chain:5,tree:16,dynamic:60x6:least=0.02`.
        key: what errors call it.

    Raises:
        InputError: a text that is no list of shapes.
    """
    return [read_shape(part.strip(), key=key) for part in text.split(",")]


def read_shape(text: str, *, key: str = "shape") -> DraftShape:
    """The shape of a text.

    Args:
        text: as `str` of a shape writes it; a rule that ends drafts follows a plus sign, as in
            `chain:8+probability:0.6`.
        key: what errors call it.

    Raises:
        InputError: a text that is no shape.

    >>> str(read_shape("dynamic:60x6:least=0.02"))
    'dynamic:60x6:least=0.02'
    >>> read_shape("chain:8+probability:0.6").stop.at
    0.6
    """
    kind, _, rest = text.partition(":")
    if kind == "tree":
        return _read_tree(rest, key, text)
    drafted, plus, rule = text.partition("+")
    kind, _, rest = drafted.partition(":")
    stop = read_stop(rule, key=key) if plus else None
    ends = kind in ("chain", "dynamic", "own")
    if stop is not None and not ends:
        raise InputError("only chains and dynamic trees end early", key=key, value=text)
    match kind:
        case "off" if not rest:
            shape = OFF
        case "own" if not rest:
            shape = DraftShape(kind="own", stop=stop)
        case "chain":
            shape = chain(_whole(rest, key, text, least=0), stop)
        case "chains":
            shape = _read_chains(rest, key, text)
        case "dynamic":
            shape = dynamic(_limits(rest, key, text), stop)
        case "prompted":
            shape = DraftShape(kind="prompted", nodes=_whole(rest, key, text))
        case _:
            raise InputError(f"must be {FORMS}", key=key, value=text)
    return shape


def _read_chains(text: str, key: str, whole_text: str) -> DraftShape:
    """Several chains, as `3x5`."""
    paths, times, nodes = text.partition("x")
    if not times:
        raise InputError("several chains are written as chains:3x5", key=key, value=whole_text)
    number, length = _whole(paths, key, whole_text), _whole(nodes, key, whole_text)
    if number * length > MOST_NODES:
        raise InputError(f"must have at most {MOST_NODES} draft tokens", key=key, value=whole_text)
    return DraftShape(kind="chains", nodes=length, paths=number)


def _read_tree(text: str, key: str, whole_text: str) -> DraftShape:
    """A tree by its size, as `16` or `16:vector`, or by its file."""
    if not text:
        raise InputError("a tree needs its size or file: tree:16", key=key, value=whole_text)
    if sizes := re.fullmatch(r"([0-9]+)(:vector)?", text):
        source = "vector" if sizes[2] else "trace"
        nodes = _whole(sizes[1], key, whole_text)
        return DraftShape(kind="tree", nodes=nodes, built_from=source)
    return tree_of(Path(text))


def read_stop(text: str, *, key: str = "stop") -> Stop:
    """The rule by which drafts end early.

    Args:
        text: such as `probability:0.6` or `product:0.5:least=1:most=8`; commas serve as well.
        key: what errors call it.

    Raises:
        InputError: an unknown rule or key, or a value that is no number.
    """
    first, *others = re.split(r"[:,]", text)
    rules: dict[str, StopRule] = {name: name for name in get_args(StopRule) if name != "length"}
    if first not in rules:
        rule = f"must be one of {', '.join(rules)}, as probability:0.6"
        raise InputError(rule, key=key, value=text)
    if first == "exit":
        rule = (
            "no kind of recording tells acceptance by exit layer; record each layer as a drafter of"
            " its own"
        )
        raise InputError(rule, key=key, value=text)
    threshold = 0.0
    if others and "=" not in others[0]:
        threshold = _numbers([f"at={others.pop(0) or 0}"], {"at": "at"}, key)["at"]
    numbers = {"least_tokens": _least(rules[first])} | _numbers(others, _STOP_KEYS, key)
    whole = {field: int(value) for field, value in numbers.items()}
    return Stop(rule=rules[first], at=threshold, **whole)


def stop_text(stop: Stop) -> str:
    """How a rule by which drafts end early is spelled."""
    parts = [stop.rule] + ([f"{stop.at:.12g}"] if stop.at else [])
    parts += [f"least={stop.least_tokens}"] if stop.least_tokens != _least(stop.rule) else []
    parts += [f"most={stop.most_tokens}"] if stop.most_tokens else []
    parts += [f"unlikely={stop.unlikely_tokens}"] if stop.unlikely_tokens else []
    return ":".join(parts)


def _least(rule: StopRule) -> int:
    """Fewest draft tokens where a text names none: a controller of goodput may find that nothing
    pays.
    """
    return 0 if rule == "goodput" else 1


def _limits_text(limits: Shape) -> str:
    """How the limits of a dynamic tree are spelled, as `60x6:width=10:beam=10:least=0.02` or
    `255x15:cost=0.004:free=32`.
    """
    depth = f"x{limits.depth}" if limits.depth else ""
    numbers = {key: getattr(limits, field) for key, field in _LIMITS.items()}
    parts = [f":{key}={value:.12g}" for key, value in numbers.items() if value]
    return f"{limits.nodes}{depth}{''.join(parts)}"


def _limits(text: str, key: str, whole_text: str) -> Shape:
    """Numbers of a dynamic tree, as `60x6:width=10:beam=10:least=0.02`."""
    size, *others = text.split(":")
    sizes = re.fullmatch(r"([0-9]+)(?:x([0-9]+))?", size)
    if sizes is None:
        rule = "a dynamic tree needs its draft tokens, and its depth behind an x: dynamic:60x6"
        raise InputError(rule, key=key, value=whole_text)
    numbers = _numbers(others, _LIMITS, key)
    least, cost = (numbers.pop(field, 0.0) for field in ("least_probability", "cost_ratio"))
    if least > 1.0:
        raise InputError("least is a probability, 0 to 1", key=key, value=whole_text)
    if cost > 1.0:
        raise InputError("cost is a share of a step, 0 to 1", key=key, value=whole_text)
    return Shape(
        kind="dynamic_tree",
        nodes=_whole(sizes[1], key, whole_text),
        depth=_whole(sizes[2], key, whole_text) if sizes[2] else 0,
        least_probability=least,
        cost_ratio=cost,
        **{field: int(value) for field, value in numbers.items()},
    )


def _whole(text: str, key: str, whole_text: str, *, least: int = 1) -> int:
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= MOST_NODES:
        rule = f"needs a whole number from {least} to {MOST_NODES}"
        raise InputError(rule, key=key, value=whole_text)
    return int(text)


def _numbers(parts: list[str], fields: dict[str, str], key: str) -> dict[str, float]:
    """KEY=NUMBER pairs, under the names of the fields that the keys stand for."""
    numbers: dict[str, float] = {}
    for part in parts:
        name, _, value = part.partition("=")
        try:
            field, number = fields[name.strip()], float(value)
        except (KeyError, ValueError):
            rule = f"needs numbers as KEY=NUMBER, of {', '.join(fields)}"
            raise InputError(rule, key=key, value=part) from None
        is_whole = field not in _SHARES
        if not (math.isfinite(number) and 0 <= number < 1e6) or (is_whole and number % 1):
            raise InputError("must be a number >= 0, whole where it counts", key=key, value=part)
        numbers[field] = number
    return numbers
