"""`capacity --search full`: the cheapest layouts, formats, drafters and scheduler limits for a
load.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from costmodel.answers.estimate import Setting
    from costmodel.answers.workload import Limits, Load
    from costmodel.draft_shape import DraftShape
    from costmodel.optimizers.drafters.sources import Source

LARGEST_REPLICA = 8  # devices of the layouts that are tried where none is named


def is_full(search: str) -> bool:
    """Whether plans are searched for.

    Raises:
        InputError: neither word.
    """
    from hardware_profiles.errors import InputError

    if search not in ("named", "full"):
        raise InputError("must be named or full", key="--search", value=search)
    return search == "full"


def full_plans(
    given: Mapping[str, Any],
    source: "Source | None",
    lengths: Sequence[int] | None,
    load: "Load",
    slo: "Limits",
    utilisation: float,
    most_devices: int,
    shapes: "Sequence[DraftShape] | None" = None,
) -> "tuple[list[dict[str, Any]], list[Setting]]":
    """Rows of the best designs and of placements that cannot run, and the settings of the former.

    Args:
        given: options of the verb.
        source: the drafter that was named; None: those that are usual for the model.
        lengths: draft tokens to compare; None: the usual ones.
        load: requests to serve.
        slo: limits on means.
        utilisation: share of a replica's highest rate to plan with.
        most_devices: of a kind.
        shapes: to compare in place of the lengths and the usual trees; None: those.

    Raises:
        NoDesignError: nothing fits, or nothing meets the limits.
        InputError: several models or engines, or a plan beside the search.
    """
    from app.answers.cells import names_of
    from app.answers.joint.plans import joint_plans
    from app.questions.resolve.asked import asked
    from costmodel.optimizers.drafters.competing import competing
    from costmodel.optimizers.drafters.default_drafters import default_drafters
    from costmodel.optimizers.joint.space import JointQuestion, usual_layouts
    from hardware_profiles.errors import InputError
    from hardware_profiles.loader import load_device

    for name in ("model", "engine"):
        if len(names_of(given[name], f"--{name}")) > 1:
            raise InputError("one at a time with --search full", key=f"--{name}", value=given[name])
    for name in ("tp", "pp", "ep", "dp"):
        if given[name] != 1:
            raise InputError(
                "is searched for; leave it out, or --search named",
                key=f"--{name}",
                value=given[name],
            )
    kinds = names_of(given["device"], "--device")
    formats = {
        key: [None] if given[key] is None else [*names_of(given[key], "--dtype")]
        for key in _FORMATS
    }
    question = asked(None, {**given, "device": kinds[0], **dict.fromkeys(_FORMATS)})
    if given["method"] == "plain-decoding":
        sources: Sequence[Source] = []
    else:
        sources = default_drafters(question)[1] if source is None else [source]
    priced = all(
        load_device(kind, question.deployment.overrides).price_usd_per_hour is not None
        for kind in kinds
    )
    joint = JointQuestion(
        question=question,
        sources=competing(question, sources),
        device_names=kinds,
        most_devices=most_devices,
        layouts=usual_layouts(given["model"], min(most_devices, LARGEST_REPLICA)),
        weight_formats=formats["dtype"],
        cache_formats=formats["kv_dtype"],
        load=load,
        rate_stated=True,
        slo=slo,
        maximise="tokens-per-dollar" if priced else "tokens-per-joule",
        utilisation=utilisation,
        draft_tokens=lengths,
        shapes=shapes,
        seed=given["seed"],
    )
    return joint_plans(joint)


_FORMATS = ("dtype", "kv_dtype")
