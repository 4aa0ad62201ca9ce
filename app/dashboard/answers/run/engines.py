"""What starts the state's engine with what was found: at one batch, and with the draft length by
batch?

Leaves out how a format looks (`app.exporters`) and which configuration is fastest.
"""

import io
import zipfile
from collections.abc import Mapping

from app.answers.deployables import Deployable
from app.answers.optimize.headline import schedule_words
from app.answers.optimize.recommended import Recommended
from app.dashboard.answer import EngineStart
from app.dashboard.held import without_places
from app.dashboard.state import State
from app.exporters.registry import ENGINES, export
from app.exporters.result import ExportResult
from costmodel.configuration import DecodingConfiguration
from costmodel.optimizers.recommend import Recommendation
from hardware_profiles.errors import InputError

BY_BATCH = "by-batch"  # folder of the schedule's files in the archive


def alone(answer: Recommended, state: State) -> tuple[list[EngineStart], list[str]]:
    """The engine's command for the state's batch, and sentences about what it leaves out.

    Args:
        answer: at the state's batch.
        state: the page's question.
    """
    if state.engine not in ENGINES:
        return [], ["This engine takes no command: choose one that is served to have its files."]
    one = next(entry for entry in answer.entries if entry.engine == state.engine)
    if one.result is None:
        return [], [f"{one.engine} cannot run it: {one.reason}."]
    return [start(f"At batch {state.batch:,}: {one.content}", one.result)], _why_other(one)


def scheduled(
    recommendation: Recommendation, everywhere: Recommendation, state: State
) -> tuple[list[EngineStart], list[str]]:
    """The engine's command for the schedule over batches of the drafter that wins at the state's
    batch.

    Args:
        recommendation: the recommendation at the state's batch.
        everywhere: at the usual batches.
        state: the page's question.

    Returns:
        The command with its files, where there is one, and sentences about why not.
    """
    if state.engine not in ENGINES or (chosen := _schedule(recommendation, everywhere)) is None:
        return [], []
    try:
        title, drafted = "As a schedule over batches", chosen.draft_tokens_at(state.batch)
        if drafted == 0:
            title += f", which drafts nothing at batch {state.batch:,}"
        elif recommendation.winners[0].topology == "off":
            title += (
                f", which drafts {drafted} at batch {state.batch:,}: a drafter that stays loaded costs"
                " more than it brings there, and idle it costs too"
            )
        return [start(title, export(chosen, state.engine))], []
    except InputError as error:
        words = schedule_words(chosen.schedule) or f"draft {chosen.draft_tokens} tokens"
        return [], [
            f"{state.engine} does not read a schedule over batches ({words}): {error.message}."
        ]


def archive(answer: Recommended, everywhere: Recommendation, state: State) -> bytes:
    """Every engine's files in one archive, a folder each, and those of the schedule in a folder of
    its own.

    Args:
        answer: at the state's batch.
        everywhere: what was found at the usual batches.
        state: the page's question.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as folder:
        for entry in answer.entries:
            _write(folder, entry.engine, entry.result.files if entry.result else {})
        for start in scheduled(answer.recommendation, everywhere, state)[0]:
            _write(folder, f"{state.engine}-{BY_BATCH}", start.files)
    return packed.getvalue()


def _write(archive: zipfile.ZipFile, folder: str, files: Mapping[str, str | bytes]) -> None:
    for name, text in files.items():
        shown = without_places(text) if isinstance(text, str) else text
        archive.writestr(zipfile.ZipInfo(f"{folder}/{name}"), shown)


def _schedule(
    recommendation: Recommendation, everywhere: Recommendation
) -> DecodingConfiguration | None:
    """Of the drafter that wins at the state's batch; None where it drafts at no batch."""
    chosen = everywhere.scheduled(recommendation.winners[0])
    return None if chosen is None or not chosen.speculates else chosen


def start(title: str, result: ExportResult) -> EngineStart:
    """What starts an engine with an exported configuration, without the server's folders."""
    files = {
        name: without_places(text) for name, text in result.files.items() if isinstance(text, str)
    }
    return EngineStart(title=title, command=without_places(result.command), files=files)


def _why_other(engine: Deployable) -> list[str]:
    """What the engine's command holds, where that is not what the headline says."""
    return (
        [f"{engine.engine}'s command runs {engine.content}, for {engine.reason}."]
        if engine.reason
        else []
    )
