"""Does a recording tell of the drafter and the target that are asked about, and of steps without a
proposal?

Leaves out what it tells (`costmodel.optimizers.drafters.sources`).
"""

from costmodel.architectures.library import load_model
from costmodel.method_library import load_method
from hardware_profiles.errors import UnknownNameError
from traces.kinds.acceptance import AcceptanceTrace


def drafts_alike(one: str, other: str) -> bool:
    """Whether two methods have the same kind of drafter, so that a recording of one tells of the
    other.
    """
    kinds = [tuple(stage.by for stage in load_method(slug).draft) for slug in (one, other)]
    return kinds[0] == kinds[1]


def is_borrowed(trace: AcceptanceTrace, model: str) -> bool:
    """Whether a trace was recorded on another model than the one named (or on an unnamed one)."""
    recorded = trace.provenance.model
    return not recorded or not same_model(recorded, model)


def same_model(one: str, other: str) -> bool:
    """Whether two names are of one model; names of no shipped model are compared as they stand."""
    try:
        return load_model(one).name == load_model(other).name
    except UnknownNameError:
        return one == other


def proposal_share(method: str, match_rate: float | None) -> float:
    """Share of steps with a proposal: 1 for drafters that always have one."""
    return match_rate if match_rate is not None and load_method(method).may_propose_nothing else 1.0


def assumed_share(method: str, match_rate: float | None) -> str:
    """What is assumed of counts that leave out steps without a proposal."""
    if match_rate is not None or not load_method(method).may_propose_nothing:
        return ""
    return (
        "counts hold for steps with a proposal, and every step is taken to have one; --match-rate"
        " states the share"
    )
