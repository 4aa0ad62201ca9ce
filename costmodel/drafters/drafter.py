"""What runs to propose tokens: the stages of a method, built for a target.

A drafter is data derived from a method and its target. Leaves out how often its passes run
(`passes`) and what they cost (`pass_costs`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from costmodel.architectures.architecture import Architecture
from costmodel.architectures.hf.draft_head import DraftHead
from costmodel.drafters.passes import SILENT
from costmodel.drafters.stage import Stage, build_stage
from costmodel.method import Draft, Method
from costmodel.passes.memory import WeightValues
from costmodel.transforms.declared import Transform
from hardware_profiles.errors import InputError


@dataclass(frozen=True, kw_only=True, slots=True)
class Drafter:
    """The stages of a method, built for a target.

    Args:
        method: the method; its shape, verifier and batching say what the verify pass looks like.
        stages: networks, the one that the target verifies first.
        transforms: of the target that reach draft passes by other networks too.
        dtype: format or recipe of the weights of networks of its own; None: see `drafters.formats`.
    """

    method: Method
    stages: tuple[Stage, ...] = ()
    transforms: tuple[Transform, ...] = ()
    dtype: str | None = None

    @property
    def name(self) -> str:
        """For tables."""
        return " < ".join(stage.name for stage in self.stages) or "none"

    @property
    def architecture(self) -> Architecture | None:
        """Layers and head of a pass of the first stage; None where no layers run."""
        return self.stages[0].architecture if self.stages else None

    @property
    def resident_values(self) -> int:
        """Weights held beside the target's, on the target's devices."""
        return (
            0
            if self.method.batch.own_device
            else sum(stage.resident_values for stage in self.stages)
        )

    @property
    def kv_values_per_token(self) -> int:
        """Cached values held beside the target's, on the target's devices."""
        if self.method.batch.own_device:
            return 0
        return round(
            sum(stage.kv_values_per_token * stage.draft.context_ratio for stage in self.stages)
        )

    @property
    def drafts_level_by_level(self) -> bool:
        """Whether every level takes a pass of its own."""
        if len(self.stages) != 1:
            return False
        d = self.stages[0].draft
        return (
            d.by not in SILENT
            and d.depths_per_pass == 1
            and d.serial_depths is None
            and not d.passes
        )

    @property
    def exit_layers(self) -> int | None:
        """First layers of the target that draft; None for every other drafter."""
        exits = self.method.exits_early and self.architecture is not None
        return self.architecture.layers if exits and self.architecture is not None else None


def build_drafter(
    method: Method,
    target: Architecture,
    *,
    draft: Architecture | None = None,
    head: DraftHead | None = None,
    exit_layer: int | None = None,
    transforms: Sequence[Transform] = (),
    dtype: str | None = None,
) -> Drafter:
    """The drafter of a method for a target.

    Args:
        method: the method.
        target: the model that verifies.
        draft: the draft model, for methods that need one.
        head: what the config of a head states of its shapes, for methods with one.
        exit_layer: layers that a drafter by the target runs; None: those of the record.
        transforms: of the target that reach draft passes by other networks too.
        dtype: format or recipe of the weights of networks of its own.

    Raises:
        InputError: a draft model that is missing or whose vocabulary differs, an exit outside the
            target, or fields of the method that exclude each other.

    >>> from costmodel.architectures.library import load_model
    >>> from costmodel.method_library import load_method
    >>> build_drafter(load_method("early-exit"), load_model("llama-3.1-8b"), exit_layer=8).name
    'exit at 8 of 32'
    """
    stages = tuple(
        build_stage(stage, target, model=draft, head=head, exit_layer=exit_layer)
        for stage in method.stages
    )
    if method.verify.remaining_layers and (not method.exits_early or method.may_propose_nothing):
        raise InputError(
            "verifying the remaining layers needs a draft by the first ones in every step",
            key="verify",
            value=method.slug,
        )
    if any(inner.tokens < 1 for inner in method.draft[1:]):
        raise InputError(
            "a stage that drafts for another needs its draft tokens",
            key="draft.tokens",
            value=method.slug,
        )
    return Drafter(method=method, stages=stages, transforms=tuple(transforms), dtype=dtype)


def custom_drafter(
    method: Method,
    target: Architecture,
    *,
    name: str,
    passes: int,
    bytes_read: float,
    weight_bytes: float,
    dtype: str | None = None,
) -> Drafter:
    """An unpublished drafter given only by what a pass reads.

    Args:
        method: the method whose verifier and shape it drafts for.
        target: the model that verifies.
        name: what it is called.
        passes: of a step, whatever its length.
        bytes_read: weights that a pass reads, in bytes.
        weight_bytes: bytes of one weight.
        dtype: format of its weights; None: 16 bits.

    Raises:
        InputError: fewer than one pass, or no bytes.
    """
    if passes < 1 or not 0 < bytes_read < float("inf"):
        raise InputError(
            "--draft-passes must be >= 1 and --draft-bytes positive and finite",
            value=(passes, bytes_read),
        )
    values = round(bytes_read / weight_bytes)
    # one matrix as wide as the target that reads as many bytes: only they count
    matrix = ("weights", max(1, values // target.hidden), target.hidden)
    draft = Draft(by="model", passes=passes)
    stage = Stage(
        draft=draft, name=name, projections=(matrix,), resident=WeightValues(matrices=values)
    )
    return Drafter(method=replace(method, draft=(draft,)), stages=(stage,), dtype=dtype)
