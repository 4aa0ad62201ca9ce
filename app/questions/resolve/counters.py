"""Which drafter and which acceptance do an engine's counters stand for, when the command line names
scrapes?
"""

from collections.abc import Sequence
from pathlib import Path

from costmodel.architectures.library import load_model
from costmodel.method_library import load_method
from costmodel.optimizers.drafters.sources import Source, counted_source
from hardware_profiles.errors import InputError, RooftreeError
from traces.importers.engines.running import Running, read_running

MOST_SCRAPES = 2


def scrapes(metrics: Sequence[Path] | None, after: Path | None) -> list[Path]:
    """The files of --metrics, in their order: `--metrics BEFORE AFTER`, or the option twice.

    Raises:
        InputError: a file that belongs to no option, or more than two.
    """
    files = [*(metrics or ()), *([] if after is None else [after])]
    if after is not None and not metrics:
        rule = "is a second scrape, and nothing comes before it: --metrics BEFORE AFTER"
        raise InputError(rule, key="AFTER", value=str(after))
    if len(files) > MOST_SCRAPES:
        raise InputError(
            "takes one scrape or two, before and after", key="--metrics", value=len(files)
        )
    return files


def running_engine(files: Sequence[Path], model: str) -> Running:
    """What an engine ran, as its counters say.

    Args:
        files: one scrape or two.
        model: of --model, which chooses among several that were served; empty: not named.

    Raises:
        InputError: as `read_running`.
    """

    def is_served(label: str) -> bool:
        try:
            return bool(model) and load_model(label).name == load_model(model).name
        except RooftreeError:
            return label == model

    return read_running(files[0], *files[1:], is_served=is_served)


def counters_source(
    running: Running, method: str, match_rate: float | None, lengths: Sequence[int]
) -> Source:
    """The drafter that made the drafts, at the acceptance that was counted.

    Args:
        running: of the scrapes.
        method: slug of --method.
        match_rate: of --match-rate; None: what the counters tell.
        lengths: of --draft-tokens, of which the longest is that in use where no counter tells.

    Raises:
        InputError: no method, or counters without acceptance.
    """
    if not method or not load_method(method).drafts:
        rule = (
            "counters do not say what drafted: name it, such as eagle-3, mtp, speculative-decoding"
            " or n-gram"
        )
        raise InputError(rule, key="--method", value=method or None)
    share = match_rate if match_rate is not None else running.proposal_ratio
    about = (
        f"counters of {running.engine}: {' to '.join(Path(file).name for file in running.files)}"
    )
    return counted_source(
        running.trace, method, share, lengths=lengths, file=Path(running.files[-1]), about=about
    )
