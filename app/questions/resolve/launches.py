"""By which launch are the rows of a table of serving runs answered?

A row's own `launch` counts; a question names one for the others. Leaves out what a launch means
(`simulator.closed_loop.launch_settings`).
"""

from app.questions.record_files import Records
from hardware_profiles.errors import UnknownNameError
from real_runs.published_runs import AS_PUBLISHED
from real_runs.published_runs.stated_launches import with_stated_launches
from simulator.closed_loop.launch_settings import LOAD_PATTERNS, read_launch

NONE = "none"


def with_launches(records: Records, launch: str, *, file: str) -> Records:
    """The rows with the launch that a question names, where they have none of their own.

    Args:
        records: rows by column.
        launch: its name; empty or `none`: engines' defaults.
        file: where the rows come from, for messages.

    Raises:
        UnknownNameError: no such launch.
        InputError: a value that no table can mean.
    """
    if launch in ("", NONE):
        return records
    if launch == AS_PUBLISHED:
        return with_stated_launches(records, file=file)
    try:
        name = str(read_launch(launch))
    except UnknownNameError as error:
        names = [*LOAD_PATTERNS, "inferencex-2026-03", AS_PUBLISHED, NONE]
        raise UnknownNameError("launch", error.name, names, key="--launch") from None
    return [{**record, "launch": record.get("launch") or name} for record in records]
