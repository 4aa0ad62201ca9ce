"""Which engines can load the winner of a joint search, and in what files?"""

from __future__ import annotations

from app.answers.deployables import Deployable, content_words
from app.exporters.registry import ENGINES, export
from costmodel.configuration import DecodingConfiguration
from hardware_profiles.errors import InputError


def joint_deployables(chosen: DecodingConfiguration) -> list[Deployable]:
    """One entry per engine.

    Args:
        chosen: what to run.
    """
    return [_deployable(chosen, engine) for engine in ENGINES]


def _deployable(chosen: DecodingConfiguration, engine: str) -> Deployable:
    reason = ""
    for approximate in (False, True):
        try:
            exported = export(chosen, engine, approximate=approximate)
        except InputError as error:
            reason = reason or f"{chosen.method}: {error.message}"
        else:
            return Deployable(
                engine=engine,
                result=exported,
                content=content_words(chosen, approximate),
                reason=reason,
            )
    return Deployable(engine=engine, result=None, reason=reason)
