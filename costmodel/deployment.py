"""What runs where, and how: the setting of a pass.

A model, one device of its group, number formats, transforms and the few switches that move the cost of a pass.
Leaves out the drafter and the engine's overhead (`estimate.Setting`).
"""

from dataclasses import dataclass
from typing import Literal

from costmodel.architecture import Architecture
from costmodel.precision import Precision
from costmodel.state_update import Rollback
from costmodel.transforms.declared import LayerSchedule, SparseAttention
from hardware_profiles.errors import InputError
from hardware_profiles.profile import Device

Fidelity = Literal["datasheet", "calibrated", "measured"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployment:
    """A model on a device, and how it runs there.

    Args:
        architecture: the model.
        device: one device of the group.
        precision: number formats.
        tensor_parallel: devices N that share every layer; must divide the query heads.
        fidelity: `datasheet` (bare roofs), `calibrated` (the profile's constants) or `measured` (the same, corrected
            by whole passes that were timed on the device; see `measured`).
        split_verify: the attention kernel can split a request's cache among processors when it has several
            query tokens; False bills the whole context to one unit.
        graphs: passes are captured in graphs, so that the host costs nothing per layer.
        expert_correlation: of the experts that one request's tokens of a pass choose, 0 to 1.
        rollback: what recurrent layers keep to undo rejected tokens: a state per token, or inputs to replay.
        sparse_attention: which cached tokens are attended to; None: all. Set by `transforms.compose.apply`.
        schedule: which layers tokens run; None: all. Set likewise.

    Raises:
        InputError: a tensor-parallel degree that does not divide the heads, a correlation outside [0, 1].
    """

    architecture: Architecture
    device: Device
    precision: Precision
    tensor_parallel: int = 1
    fidelity: Fidelity = "calibrated"
    split_verify: bool = True
    graphs: bool = True
    expert_correlation: float = 0.0
    rollback: Rollback = "copies"
    sparse_attention: SparseAttention | None = None
    schedule: LayerSchedule | None = None

    def __post_init__(self) -> None:
        n = self.tensor_parallel
        blocks = [block for block, _ in self.architecture.blocks]
        shared = [block.attention.heads for block in blocks] + [block.state.heads for block in blocks if block.state]
        if n < 1 or any(heads % n for heads in shared):
            raise InputError(f"must be >= 1 and divide the heads of {self.architecture.name}", key="tp", value=n)
        if not 0.0 <= self.expert_correlation <= 1.0:
            raise InputError("must lie in [0, 1]", key="expert_correlation", value=self.expert_correlation)
