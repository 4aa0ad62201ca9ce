"""How does a program decode masked blocks, as its own settings say it, release by release?

A program is an engine or research code that runs masked models: which commit rules it has and under
which names, which passes it computes, which models it runs, and every flag and key with its type,
default and choices. Leaves out how the settings are put into files (`app.exporters.diffusion`) and
what a program costs (`costmodel.engines`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hardware_profiles.errors import InputError
from traces.kinds.refine_policy import COMMIT_RULES, Cache, Stop

Value = str | int | float | bool | None
Kind = Literal["int", "float", "text", "bool"]
_TYPES: Mapping[Kind, tuple[type, ...]] = {
    "int": (int,),
    "float": (float, int),
    "text": (str,),
    "bool": (bool,),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSetting:
    """One flag of a command line, or one key of a file or constructor.

    Args:
        kind: what the program reads it as.
        default: what it takes where the setting is absent.
        choices: the values that it takes; empty: any of its kind.
        first: oldest read release that has it; empty: all.
    """

    kind: Kind
    default: Value = None
    choices: tuple[str, ...] = ()
    first: str = ""

    def check(self, name: str, value: Value) -> None:
        """Insist that the program would take a value.

        Raises:
            InputError: another type, or none of the choices.
        """
        if not isinstance(value, _TYPES[self.kind]) or (
            isinstance(value, bool) and self.kind != "bool"
        ):
            raise InputError(f"must be {self.kind}", key=name, value=value)
        if self.choices and value not in self.choices:
            raise InputError(f"must be one of {', '.join(self.choices)}", key=name, value=value)


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleForm:
    """A commit rule, as a program has it.

    Args:
        name: what the program calls it; empty where it has no name.
        thresholds: the program's setting for each threshold of the rule that it can set; the others
            are `fixed`.
        fixed: thresholds that the program has no setting for, and its value of them.
        first: oldest read release that has it; empty: all.
        remark: where the program differs from the rule.
    """

    name: str = ""
    thresholds: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, float] = field(default_factory=dict)
    first: str = ""
    remark: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Refining:
    """What the settings of a program can express of masked decoding.

    Args:
        name: as it is selected.
        releases: those whose sources were read, oldest first.
        rules: the commit rules that it has, by `COMMIT_RULES`.
        without: rules that one might look for there, and why they are not there.
        caches: what passes compute, and what the program calls it; those that are left out it does
            not have.
        cache_rule: why it has no other.
        stops: when a canvas is done; those that are left out it does not have.
        stop_rule: why it has no other.
        models: configs' `model_type` of the models that it runs.
        settings: the flags or arguments that are written, by name.
        keys: the keys that are written to its files or constructors, by file or constructor.
        parallel: ways to spread a model that it has; the others were not looked up or are refused
            by `refused`.
        refused: ways to spread a model that it does not have, and why.
        remarks: what anyone must know who runs it.
        source: what was read.

    Raises:
        InputError: a rule that is in no table, or that is both there and not.
    """

    name: str
    releases: tuple[str, ...]
    rules: Mapping[str, RuleForm]
    without: Mapping[str, str] = field(default_factory=dict)
    caches: Mapping[Cache, str]
    cache_rule: str
    stops: tuple[Stop, ...]
    stop_rule: str
    models: tuple[str, ...]
    settings: Mapping[str, EngineSetting]
    keys: Mapping[str, Mapping[str, EngineSetting]] = field(default_factory=dict)
    parallel: tuple[str, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    source: str

    def __post_init__(self) -> None:
        for rule in (*self.rules, *self.without):
            if rule not in COMMIT_RULES or (rule in self.rules and rule in self.without):
                raise InputError(
                    "must be a commit rule that either `rules` or `without` names",
                    key="rules",
                    value=rule,
                )
        for rule, form in self.rules.items():
            if {*form.thresholds, *form.fixed} != {*COMMIT_RULES[rule].at}:
                raise InputError(
                    "must set every threshold of the rule",
                    key=f"rules.{rule}",
                    value=(*form.thresholds,),
                )

    @property
    def default(self) -> str:
        """The release that is written for unless another is named: the newest."""
        return self.releases[-1]

    def has(self, first: str, release: str) -> bool:
        """Whether a read release has what exists from another on."""
        return not first or self.releases.index(first) <= self.releases.index(release)
