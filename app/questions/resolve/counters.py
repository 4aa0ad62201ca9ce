"""Which drafter and which acceptance do an engine's counters stand for, when the command line names
scrapes?
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.questions.optimize import OptimizeQuestion
from costmodel.answers.settings import method_of
from costmodel.architectures.library import load_model
from costmodel.engine_library import load_engine
from costmodel.method_library import load_method
from costmodel.optimizers.drafters.sources import Source, counted_source
from hardware_profiles.errors import InputError, RooftreeError
from traces.importers.engines.ran import Running
from traces.importers.engines.running import read_adapters, read_running

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


def running_adapters(files: Sequence[Path], model: str) -> dict[str, Running]:
    """What an engine ran for every adapter of a model, by the adapter's name; empty where nothing
    tells of several.

    Args:
        files: one scrape or two, or responses.
        model: of --model; a name that counters give to another model is no adapter of it.
    """

    def is_adapter(label: str) -> bool:
        try:
            return load_model(label).name == load_model(model).name
        except RooftreeError:
            return True

    return read_adapters(files, is_adapter) if model else {}


def as_run(question: OptimizeQuestion, running: Running) -> tuple[OptimizeQuestion, list[str]]:
    """A question with what its engine says of itself in the place of defaults, and sentences on
    what was taken from it and what was assumed.

    Args:
        question: what is asked; what it states wins.
        running: what the engine ran.
    """
    taken: dict[str, Any] = {}
    words: list[str] = []
    facts, log = running.facts, scrapes(question.metrics, question.after)[-1]
    if "engine" not in question.stated:
        taken["engine"] = running.engine
    if not question.method and (method := _logged_method(running)):
        taken["method"] = method
        words.append(f"--method {method}")
    if facts.tensor_parallel is not None and "tp" not in question.stated:
        taken["tp"] = facts.tensor_parallel
        words.append(f"--tp {facts.tensor_parallel}")
    has_adapters = facts.max_loras is not None and facts.adapters is not None
    if has_adapters and "max_loras" not in question.stated:
        taken["max_loras"] = facts.max_loras
        several = "s" * (facts.adapters != 1)
        words.append(
            f"--max-loras {facts.max_loras} (requests ran with {facts.adapters} adapter{several})"
        )
    engine = load_engine(taken.get("engine", question.engine.partition(",")[0].strip()))
    cache_tokens = facts.tokens(engine.memory.block_tokens)
    if cache_tokens is not None and question.engine_log is None:
        taken["engine_log"] = log
        words.append(f"a cache of {cache_tokens:,} tokens")
    if facts.max_requests is not None:
        words.append(f"at most {facts.max_requests:,} requests in flight")
    rank = f"--max-lora-rank {question.max_lora_rank}"
    defaults = {
        **({"max_lora_rank": rank} if "max_loras" in taken else {}),
        "device": f"--device {question.device}",
        "tp": f"--tp {question.tp}",
        "context": f"--context {','.join(map(str, question.context))}",
    }
    assumed = [
        option
        for name, option in defaults.items()
        if name not in question.stated and name not in taken
    ]
    file = Path(running.files[-1]).name
    lines = [_order_words(running)] if running.reordered else []
    lines += [f"taken from {file}: {', '.join(words)}"] if words else []
    if assumed:
        lines.append(f"assumed, since neither {file} nor an option tells: {', '.join(assumed)}")
    return replace(question, **taken), lines


def _order_words(running: Running) -> str:
    """That the scrapes were named in the other order, and how that is known."""
    early, late = (Path(file).name for file in running.files)
    return (
        f"{early} was scraped before {late}, as its counters are the lower ones: they were named in"
        " the other order (an engine that was restarted in between would look the same)"
    )


def _logged_method(running: Running) -> str:
    """The method that a log says was started; empty where it does not, or in no known word."""
    try:
        return method_of(running.trace.provenance.method)
    except InputError:
        return ""


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
            "neither counters, logs nor responses say what drafted: name it, such as eagle-3, mtp, speculative-decoding"
            " or n-gram"
        )
        raise InputError(rule, key="--method", value=method or None)
    share = match_rate if match_rate is not None else running.proposal_ratio
    files = " to ".join(Path(file).name for file in running.files)
    about = f"{running.reported_by} of {running.engine}: {files}"
    return counted_source(
        running.trace, method, share, lengths=lengths, file=Path(running.files[-1]), about=about
    )
