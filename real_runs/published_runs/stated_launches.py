"""By which launch was each row of a published table measured, and did it speculate?

Tables of published runs leave out who measured a row. Two publishers stand behind most of them:
InferenceX, known by its lengths with a day or with an image of the engine's makers, and NVIDIA,
whose generator states the batch, deploys images of its own and has lengths of its own. What is read
so is stated by name in the row, as a user would state it, and nothing else is added to it. Leaves
out what a launch sets (`simulator.closed_loop.launch_library`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from costmodel.architectures.library import named_model
from costmodel.engine_library import load_engine
from hardware_profiles.errors import RooftreeError
from real_runs.published_runs.hidden_drafts import drafted
from simulator.closed_loop.columns import read_columns
from simulator.closed_loop.launch_settings import RANGE_LENGTHS, LaunchName

_DAY = len("2026-01-31")
_MAKERS_IMAGES = ("vllm/", "lmsysorg/", "nvcr.io/nvidia/tensorrt-llm/")
Record = Mapping[str, Any]


def with_stated_launches(records: Sequence[Record], *, file: str) -> list[dict[str, Any]]:
    """The rows of a table with the launch that each was measured by, and `speculation` where image
    and day tell of drafts that no column tells of.

    Args:
        records: rows by column; a launch that a row states stays.
        file: where they come from, for messages.

    Raises:
        InputError: a value that no table can mean; names file, column and row.
    """
    return [_stated(record, file, index) for index, record in enumerate(records)]


def published_launch(row: Record) -> LaunchName | None:
    """The launch that a row was measured by; None: nobody's whose scripts are known.

    Args:
        row: by column (`simulator.closed_loop.columns.read_columns`).
    """
    day = (row["measured"] or "")[:_DAY] or None
    makers = (row["image"] or "").casefold().replace("#", "/").startswith(_MAKERS_IMAGES)
    if (row["isl"], row["osl"]) in RANGE_LENGTHS and (day or makers):
        return LaunchName(scripts="inferencex", day=day)
    if row["batch_size"] is None or makers:
        return None
    return LaunchName(scripts="aiconfigurator")


def _stated(record: Record, file: str, index: int) -> dict[str, Any]:
    row = read_columns(record, file=file, row=index)
    launch = published_launch(row)
    if row["launch"] or launch is None:
        return dict(record)
    hidden = launch.scripts == "inferencex" and _drafted(row, launch)
    return {**record, "launch": str(launch)} | ({"speculation": "mtp"} if hidden else {})


def _drafted(row: Record, launch: LaunchName) -> bool:
    """Whether a row of one pool speculated although no column says so."""
    if (row["mode"] or "agg") != "agg" or (row["speculation"] or "none").casefold() != "none":
        return False
    try:
        model = named_model(row["model_path"].rstrip("/")).name
        engine = load_engine(row["backend"]).name
    except RooftreeError:
        return False
    return drafted(
        engine=engine,
        model=model,
        device=row["system"].casefold().replace("_", "-"),
        precision=(row["precision"] or "").casefold() or None,
        image=row["image"],
        day=launch.day,
    )
