"""How is a draft length that counters call for written in the options of the engine that runs?

As its log stated them, else as they are exported for the method, with another length. Leaves out
which length that is (`counted`).
"""

from collections.abc import Sequence
from dataclasses import replace

from app.answers.optimize.counted_rows import CountedVerdict, FlagsRow, NextRunRow
from app.exporters.draft_length import (
    changed_export,
    changed_options,
    stated_length,
    with_length,
)
from app.exporters.registry import ENGINES, export
from costmodel.configuration import DecodingConfiguration
from costmodel.method import Stop
from hardware_profiles.errors import InputError
from traces.importers.engines.ran import Running


def flags_rows(
    configuration: DecodingConfiguration,
    running: Running,
    verdicts: Sequence[CountedVerdict],
    following: Sequence[NextRunRow],
) -> tuple[list[FlagsRow], list[str]]:
    """The options to run in the place of those that run, for the best length that is known and for
    what to measure next.

    Args:
        configuration: of the drafter that was counted, where it runs.
        running: what the engine ran.
        verdicts: where it runs.
        following: what to measure next.

    Returns:
        The rows, and why there are none where the engine cannot be told.
    """
    wanted = {
        verdict.best_draft_tokens: "change"
        for verdict in verdicts
        if verdict.answer != "keep" and verdict.best_draft_tokens != verdict.in_use_draft_tokens
    }
    for run in following:
        if run.draft_tokens != running.draft_tokens:
            wanted.setdefault(run.draft_tokens, "measure")
    if not wanted:
        return [], []
    try:
        return [
            _row(configuration, running, draft_tokens, purpose)
            for draft_tokens, purpose in wanted.items()
        ], []
    except InputError as error:
        return [], [f"no options of {running.engine} are written: {error.message}"]


def _row(
    configuration: DecodingConfiguration, running: Running, draft_tokens: int, purpose: str
) -> FlagsRow:
    """The options of one length.

    Raises:
        InputError: an engine that nothing is written for, or that cannot run the method.
    """
    in_use = None if running.is_mixed else running.draft_tokens
    if in_use is not None and stated_length(running.drafting) == in_use:
        then = with_length(running.drafting, draft_tokens)
        old, new = changed_options(running.drafting, then)
        return FlagsRow(
            draft_tokens=draft_tokens, purpose=purpose, old=old, new=new, stated_by="log"
        )
    if running.engine not in ENGINES:
        raise InputError("nothing is written for it")
    written = export(_chain(configuration, draft_tokens), running.engine)
    now = export(_chain(configuration, in_use or 0), running.engine)
    old, new = changed_export(now, written)
    return FlagsRow(
        draft_tokens=draft_tokens,
        purpose=purpose,
        old=None if in_use is None else old,
        new=new,
        stated_by="export",
    )


def _chain(configuration: DecodingConfiguration, draft_tokens: int) -> DecodingConfiguration:
    return replace(configuration, draft_tokens=draft_tokens, shape=None, stop=Stop(), schedule=())
