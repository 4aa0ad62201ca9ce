"""What can one program express of masked decoding at one release, and how is a refusal worded?

What a program has stands in its record (`costmodel.engines.refining`); how it is spelled in its
module here. Leaves out drafts (`app.exporters.dialect`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.exporters.checkpoints import target_checkpoint
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration
from costmodel.engine_library import load_refining
from costmodel.engines.record.refining import EngineSetting, Refining, RuleForm, Value
from costmodel.laws.refined_method import method_policy
from costmodel.method import Method
from costmodel.method_library import load_method
from hardware_profiles.errors import InputError, UnknownNameError
from traces.kinds.refine_policy import RefinePolicy

_UNREAD = "was not looked up for masked blocks"


def refines(chosen: DecodingConfiguration) -> bool:
    """Whether a configuration decodes masked blocks, and drafts nothing."""
    method = load_method(chosen.method)
    return method.refine is not None and not method.drafts


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedDecoding:
    """A configuration of masked decoding.

    Args:
        chosen: where it runs, and its limits.
        method: of the configuration.
        policy: which tokens a pass commits, and what it computes.
        canvas_tokens: tokens that are decoded behind a prompt.
        model_type: of the target's config; empty where the target is not among the shipped ones.
    """

    chosen: DecodingConfiguration
    method: Method
    policy: RefinePolicy
    canvas_tokens: int
    model_type: str

    @property
    def requests(self) -> int:
        """Most requests at once that the configuration is for; one where it names none."""
        return self.chosen.largest_batch or 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """One program at one release: what refusals and headers name.

    Args:
        record: what its settings can express.
        version: release that was asked for; one of those that were read.
    """

    record: Refining
    version: str

    @classmethod
    def of(cls, name: str, version: str | None = None) -> Program:
        """A program at a release; None: the newest that was read.

        Raises:
            UnknownNameError: no such program or release.
        """
        record = load_refining(name)
        if version is not None and version not in record.releases:
            raise UnknownNameError(f"{name} version", version, record.releases, key="version")
        return cls(record=record, version=record.default if version is None else version)

    def refusal(self, key: str, rule: str, value: object) -> InputError:
        """An error that names the program, its version, the key, the rule and the value."""
        return InputError(f"{self.record.name} {self.version}: {rule}", key=key, value=value)

    def decoded(self, chosen: DecodingConfiguration) -> MaskedDecoding:
        """What is decoded, and how: the configuration's own policy, else that of its method's code.

        Raises:
            InputError: a method without a policy, or what the program's record says that it cannot
                express.
        """
        method = load_method(chosen.method)
        assert method.refine is not None
        policy = chosen.refine
        if policy is None:
            try:
                policy = method_policy(method)
            except InputError as error:
                raise self.refusal("method", error.message, chosen.method) from None
        block = policy.block_tokens
        stated = chosen.canvas_tokens
        canvas = max(method.refine.canvas_tokens if stated is None else stated, block)
        decoding = MaskedDecoding(
            chosen=chosen,
            method=method,
            policy=policy,
            canvas_tokens=-(-canvas // block) * block,
            model_type=_model_type(chosen.deployment.model),
        )
        self._check_policy(decoding)
        self._check_place(decoding)
        return decoding

    def form(self, decoding: MaskedDecoding) -> RuleForm:
        """How the program has the commit rule."""
        return self.record.rules[decoding.policy.commit]

    def _check_policy(self, decoding: MaskedDecoding) -> None:
        record, policy = self.record, decoding.policy
        form = record.rules.get(policy.commit)
        if form is None or not record.has(form.first, self.version):
            rules = ", ".join(
                name
                for name, rule_form in record.rules.items()
                if record.has(rule_form.first, self.version)
            )
            why = record.without.get(policy.commit, "")
            since = f"; {policy.commit} exists from {form.first} on" if form is not None else ""
            rule = f"commits by {rules} alone{since}" + (f"; {why}" if why else "")
            raise self.refusal("refine.commit", rule, policy.commit)
        for key, value in form.fixed.items():
            if policy.at[key] != value:
                rule = f"has no setting for it; it is {value:g}"
                raise self.refusal(f"refine.at.{key}", rule, policy.at[key])
        if policy.cache not in record.caches:
            raise self.refusal(
                "refine.cache", f"{record.cache_rule}: {', '.join(record.caches)}", policy.cache
            )
        if policy.stop not in record.stops:
            raise self.refusal("refine.stop", record.stop_rule, policy.stop)
        if policy.delimiters:
            rule = "has blocks of one length, and ends none at a delimiter"
            raise self.refusal("refine.delimiters", rule, policy.delimiters)

    def _check_place(self, decoding: MaskedDecoding) -> None:
        record, where = self.record, decoding.chosen.deployment
        if decoding.model_type and decoding.model_type not in record.models:
            rule = (
                f"runs masked models of type {', '.join(record.models)} alone, and this one is"
                f" {decoding.model_type}"
            )
            raise self.refusal("deployment.model", rule, where.model)
        for kind in ("tensor", "pipeline", "expert", "data", "context"):
            devices = getattr(where, f"{kind}_parallel")
            if devices > 1 and kind not in record.parallel:
                raise self.refusal(f"{kind}_parallel", record.refused.get(kind, _UNREAD), devices)

    def target(self, decoding: MaskedDecoding, notes: list[str]) -> str:
        """The target as the program loads it; what a reader must know of it is added to the
        notes.

        Raises:
            InputError: no target is named.
        """
        name = decoding.chosen.deployment.model
        if not name:
            raise InputError("must name the target", key="deployment.model")
        if not decoding.model_type:
            notes.append(
                f"{self.record.name} runs masked models of type {', '.join(self.record.models)}"
                " alone"
            )
        return target_checkpoint(name, notes)

    def words(self, values: Mapping[str, Value]) -> list[str]:
        """Flags and their values, as the program's command line takes them.

        Raises:
            InputError: a flag that the release does not have, or a value that it would refuse.
        """
        checked = self.checked(values, self.record.settings)
        return [word for name, value in checked.items() for word in (name, written(value))]

    def keys(self, group: str, values: Mapping[str, Value]) -> dict[str, Value]:
        """Keys of one of the program's files or constructors.

        Raises:
            InputError: a key that the release does not have, or a value that it would refuse.
        """
        return self.checked(values, self.record.keys[group])

    def checked(
        self, values: Mapping[str, Value], settings: Mapping[str, EngineSetting]
    ) -> dict[str, Value]:
        """The values that are not None, each of which the release takes.

        Raises:
            InputError: one that it does not.
        """
        stated: dict[str, Value] = {
            name: value for name, value in values.items() if value is not None
        }
        for name, value in stated.items():
            if name not in settings or not self.record.has(settings[name].first, self.version):
                raise self.refusal(name, "has no such setting", value)
            settings[name].check(name, value)
        return stated

    def notes(self, decoding: MaskedDecoding) -> list[str]:
        """What whoever runs it must know: of the program, of its rule, of the method's cost."""
        form, notes = self.form(decoding), list(self.record.remarks)
        if form.remark:
            notes.insert(0, form.remark)
        return notes

    def header(self, decoding: MaskedDecoding, notes: list[str]) -> tuple[str, ...]:
        """Lines that say what was exported, for whom, and where it comes from."""
        lines = [
            f"rooftree export for {self.record.name} {self.version}",
            f"configuration: {decoding.chosen.method}, {decoding.policy.name}",
            f"canvas: {decoding.canvas_tokens} tokens",
            *(f"{key}: {value}" for key, value in decoding.chosen.provenance.items()),
        ]
        return (*lines, *(f"note: {note}" for note in notes))


def written(value: Value) -> str:
    """A value as YAML and command lines read it: no exponents, Python's capitals for truth.

    >>> written(0.9), written(1e-05), written(32), written(True)
    ('0.9', '0.00001', '32', 'True')
    """
    if isinstance(value, float):
        return f"{value:.12f}".rstrip("0").rstrip(".") if value != int(value) else f"{value:.1f}"
    return str(value)


def _model_type(name: str) -> str:
    try:
        return load_model(name).model_type
    except InputError:
        return ""
