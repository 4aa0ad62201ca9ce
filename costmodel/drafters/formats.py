"""In which number formats does a drafter run, and how many bytes does it hold?

A drafter has formats of its own. Without a statement a network of its own runs in the format that
the target's unquantised parts have (16 bits; 32 of a target in 32), because heads and draft models
are published so; one whose checkpoint is quantised runs as it is published, and so does a
prediction layer that is part of the target's checkpoint. A stage by the target itself runs on the
target's own weights. The output head that a drafter shares with its target keeps the target's
format, and so does the cache. Leaves out what passes then cost (`pass_costs`).
"""

from dataclasses import replace

from costmodel.drafters.drafter import Drafter
from costmodel.drafters.stage import Stage
from costmodel.passes.deployment import Deployment
from costmodel.passes.formats import PLAIN
from costmodel.passes.precision import Precision, Stored, precision


def draft_precision(d: Deployment, drafter: Drafter, stage: Stage) -> Precision:
    """The formats of a stage.

    Args:
        d: the target as it runs, device included.
        drafter: states a format, or None.
        stage: of the drafter.

    Raises:
        UnknownNameError: a format that nothing carries.
    """
    if stage.draft.by == "target":
        return d.precision
    published = stage.published if stage.published not in (None, *PLAIN) else None
    name = drafter.dtype or published or d.precision.wide
    own = precision(
        name, d.precision.kv, model=stage.architecture or d.architecture, device=d.device
    )
    if not stage.shares_head:
        return own
    head = d.precision.of("head")
    return replace(own, head=Stored(head.weights, head.activations))


def drafter_bytes(d: Deployment, drafter: Drafter, tensor_parallel: int = 1) -> float:
    """Bytes that a drafter's weights take beside the target's, on each device of a group.

    Args:
        d: the target as it runs.
        drafter: who drafts.
        tensor_parallel: devices of the group.
    """
    if drafter.method.batch.own_device:
        return 0.0
    return sum(
        stage.held(tensor_parallel).stored_bytes(draft_precision(d, drafter, stage))
        for stage in drafter.stages
    )


def drafter_kv_bytes_per_token(d: Deployment, drafter: Drafter, tensor_parallel: int = 1) -> float:
    """Bytes of a token in a drafter's own cache, which has the format of the target's, on each
    device of a group.

    Args:
        d: the target as it runs.
        drafter: who drafts.
        tensor_parallel: devices of the group.
    """
    if drafter.method.batch.own_device:
        return 0.0
    values = sum(
        stage.held_kv_values(tensor_parallel) * stage.draft.context_ratio
        for stage in drafter.stages
    )
    return values * d.precision.kv_bytes
