"""Which of the recommended configurations can an engine load, and in what files?

For every engine that is named the fastest method that it can express: what was found at the batch
that was asked about, and of several their schedule where it reads one, else the draft length of the
smallest. Leaves out how a format looks
(`exporters`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.answers.cells import names_of
from app.answers.pages import plots_available
from app.answers.sentences import folded
from app.exporters.registry import ENGINES, export, write_export
from app.exporters.result import ExportResult
from costmodel.answers.estimate import estimate
from costmodel.configuration import DecodingConfiguration
from costmodel.engine_library import engine_module
from costmodel.laws.acceptance import Acceptance
from costmodel.method import Stop
from costmodel.method_library import load_method
from costmodel.optimizers.recommend import Recommendation
from costmodel.optimizers.search import Choice
from hardware_profiles.errors import InputError, UnknownNameError


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployable:
    """What an engine can load of a recommendation, and what it cannot (`reason`); `result` is None
    for nothing.
    """

    engine: str
    result: ExportResult | None
    content: str = ""
    reason: str = ""


def engines_to_write(engines: str, priced: str) -> tuple[str, ...]:
    """Engines that files are written for, in the order of `ENGINES`.

    Example:
        >>> engines_to_write("", "sglang"), engines_to_write("vllm,sglang", "vllm")
        (('sglang',), ('sglang', 'vllm'))

    Args:
        engines: names separated by commas, or all; empty: the engine that is priced, or all where
            nothing is written for that one.
        priced: engine whose overheads apply, or its file.

    Raises:
        InputError: nothing is written for an engine, or a name is empty.
    """
    if not engines:
        own = tuple(e for e in ENGINES if engine_module(e) == engine_module(priced))
        return own or ENGINES
    if engines == "all":
        return ENGINES
    names = names_of(engines, "engines")
    for name in names:
        if name not in ENGINES:
            raise UnknownNameError("engine with files", name, [*ENGINES, "all"], key="engines")
    return tuple(engine for engine in ENGINES if engine in names)


def deployables(
    answer: Recommendation, *, context: int, engines: Sequence[str] = ENGINES
) -> list[Deployable]:
    """One entry per engine, for the choices at `context`.

    Args:
        answer: what was found.
        context: the context whose schedule is exported.
        engines: of `ENGINES`.
    """
    return [deployable(answer, engine, context=context) for engine in engines]


def file_paths(entries: Sequence[Deployable], folder: Path) -> dict[str, list[str]]:
    """Where `write_all` puts every engine's files."""
    return {
        e.engine: [str(folder / e.engine / name) for name in e.result.files]
        for e in entries
        if e.result
    }


def write_all(entries: Sequence[Deployable], folder: Path) -> dict[str, list[str]]:
    """Write every engine's files to a folder of its own; engine to paths."""
    for entry in entries:
        if entry.result is not None:
            write_export(entry.result, folder / entry.engine)
    return file_paths(entries, folder)


def file_lines(entries: Sequence[Deployable], folder: Path) -> Iterator[str]:
    """What engines load, and where the answer and its page lie.

    Args:
        entries: one per engine; none where masked blocks are decoded, or nothing is written.
        folder: of the answer.
    """
    for entry in entries:
        if entry.result is None:
            yield f"{entry.engine}: nothing to load ({entry.reason})"
            continue
        *beside, start = entry.result.files  # which starts the engine with the others
        contents = ", with ".join([entry.content, *([", ".join(beside)] if beside else [])])
        yield f"{entry.engine} {entry.result.version}: {folder / entry.engine / start} ({contents})"
        if entry.reason:
            yield folded(f"  not the fastest found: {entry.reason}")
        for note in entry.result.notes:
            if note.startswith(("replace ", "no draft model", "requests of up to ")):
                yield folded(f"  {note}")
    page = folder / "report.html" if plots_available() else None
    report = page or "not written, because plotly is missing (pip install rooftree[app])"
    others = "; files of other engines: --engines all" * (0 < len(entries) < len(ENGINES))
    yield f"answer: {folder / 'recommendation.json'}; report: {report}{others}"


def deployable(answer: Recommendation, engine: str, *, context: int) -> Deployable:
    """What one engine can load of the choices at a context.

    Args:
        answer: what was found.
        engine: one that configurations are exported to.
        context: as for `deployables`.
    """
    variants = (
        _at_one_context(variant, answer)
        for choice in _by_speed(answer, context)
        for variant in _variants(answer, choice)
    )
    return first_deployable(variants, engine)


def first_deployable(chosen: Iterable[DecodingConfiguration], engine: str) -> Deployable:
    """The first of some configurations that an engine can load, as it stands or approximated.

    Args:
        chosen: best first.
        engine: one that configurations are exported to.
    """
    reasons = []
    for configuration in chosen:
        method = load_method(configuration.method)
        if configuration.speculates and engine not in method.engines:
            reasons.append(f"{method.slug}: not in {engine}")
            continue
        for approximate in (False, True):
            try:
                result = export(configuration, engine, approximate=approximate)
            except InputError as error:
                reasons.append(f"{method.slug}: {error.message}")
            else:
                return Deployable(
                    engine=engine,
                    result=result,
                    content=content_words(configuration, approximate),
                    reason="; ".join(dict.fromkeys(reasons)),
                )
    return Deployable(engine=engine, result=None, reason="; ".join(dict.fromkeys(reasons)))


def content_words(exported: DecodingConfiguration, approximate: bool) -> str:
    """What exported files hold, in words.

    Args:
        exported: what they were made of.
        approximate: something stands for what the engine cannot express.
    """
    if not exported.speculates:
        return "plain decoding"
    nearly = " (approximation, see its notes)" if approximate else ""
    drafter = exported.own_drafter or exported.method
    if exported.varies:
        return f"{drafter}, draft length by batch{nearly}"
    shape = exported.topology.replace("_", " ")
    tokens = exported.draft_tokens
    return f"{drafter}, {shape} of {tokens} draft token{'s' * (tokens != 1)}{nearly}"


def _by_speed(answer: Recommendation, context: int) -> list[Choice]:
    """Choices at the smallest batch of a context, fastest first."""
    return list(next(ranked for ranked in answer.optimum.ranked if ranked[0].context == context))


def _variants(answer: Recommendation, choice: Choice) -> Iterator[DecodingConfiguration]:
    """The choice as a schedule over batches where several were asked about, then as one tree or
    draft length for its batch.

    First of all the best tree that engines build at run time, where it beats what else could be
    written at every batch.
    """
    alone = answer.configuration(choice)
    # a schedule may draft another length at this batch than the choice does, for fewer ranges
    scheduled = answer.scheduled(choice) if len(answer.optimum.batches) > 1 else None
    if (built := _built_by_engines(answer, choice, scheduled)) is not None:
        yield built
    if scheduled is not None and scheduled.speculates:
        yield scheduled
    elif scheduled is not None and _is_plain_chain(choice.acceptance):  # none is faster on average
        stated = {"tokens_per_step": 1.0, "speedup": 1.0}
        yield replace(scheduled, schedule=(), provenance={**scheduled.provenance, **stated})
    yield alone
    if choice.topology not in ("off", "chain") and (length := _best_chain(choice)):
        yield replace(alone, draft_tokens=length, shape=None, stop=Stop())


def _at_one_context(chosen: DecodingConfiguration, answer: Recommendation) -> DecodingConfiguration:
    """A configuration whose files say of which context it is, where several were asked about."""
    if len(answer.optimum.contexts) < 2 or chosen.context is None:
        return chosen
    contexts = ", ".join(map(str, answer.optimum.contexts))
    words = f"chosen at {chosen.context} tokens alone, of the {contexts} that were asked about"
    return replace(chosen, provenance={**chosen.provenance, "context": words})


def _best_chain(choice: Choice) -> int:
    """The draft length of the fastest chain at a choice's batch and context, for engines without
    trees; 0: none.
    """
    chains = [a for a in choice.contender.candidates if _is_plain_chain(a)]
    best = max(chains, key=lambda a: _rate(choice, a, choice.batch), default=None)
    return 0 if best is None else best.draft_tokens


def _is_plain_chain(candidate: Acceptance) -> bool:
    """Whether a schedule can name it: it drafts a chain of one length, whatever is drafted."""
    return candidate.topology == "chain" and candidate.lengths is None


def _rate(choice: Choice, candidate: Acceptance, batch: int) -> float:
    """Tokens per second of a candidate in a choice's setting and context."""
    return float(
        estimate(
            choice.contender.setting, candidate, batch=batch, context=choice.context
        ).tokens_per_s
    )


def _built_by_engines(
    answer: Recommendation, choice: Choice, scheduled: DecodingConfiguration | None
) -> DecodingConfiguration | None:
    """The fastest dynamic tree of engines' kind (a depth, one number for candidates and beam) that
    beats the schedule, or the best chain where there is none.

    None where there is no such tree, or the chain is faster at one of the batches.
    """
    candidates = choice.contender.candidates
    trees = [
        a
        for a in candidates
        if a.shape is not None and a.shape.depth and a.shape.beam and a.stop is None
    ]
    if not trees:
        return None
    best = max(trees, key=lambda a: _rate(choice, a, choice.batch))
    chains = {
        a.draft_tokens: a
        for a in candidates
        if a.topology in ("off", "chain") and a.lengths is None
    }
    batches = {
        ranked[0].batch for ranked in answer.optimum.ranked if ranked[0].context == choice.context
    }
    for batch in sorted(batches):
        length = _best_chain(choice) if scheduled is None else scheduled.draft_tokens_at(batch)
        rival = chains[length]
        if _rate(choice, best, batch) <= _rate(choice, rival, batch):
            return None
    speedup = _rate(choice, best, choice.batch) / _rate(choice, chains[0], choice.batch)
    whole = answer.configuration(choice)
    stated = {"tokens_per_step": round(best.tokens_per_step, 3), "speedup": round(speedup, 3)}
    return replace(
        whole,
        draft_tokens=best.draft_tokens,
        shape=best.shape,
        stop=Stop(),
        provenance={**whole.provenance, **stated},
    )
