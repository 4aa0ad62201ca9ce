"""What should I run on this device, and why?

The recommendation of `optimize` at one context, read at one batch. Leaves out choosing among devices
(`answers.hardware`).
"""

import io
import zipfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from app.answers.deployables import deployables
from app.answers.feasible import change_words
from app.answers.optimize import recommendation, unmet_rows
from app.dashboard.answer import Answer, Card, DeferredAnswer, Row, options, scenario, shown_path, trace_path
from app.dashboard.state import State, command, milliseconds, with_values
from app.dashboard.wording import as_words
from app.figures import charts
from app.reports.report import across_batches, headline
from costmodel.answers.explain import explain
from costmodel.optimizers.allowed import Limits, NothingAllowedError, Unmet
from costmodel.optimizers.recommend import DEFAULT_BATCHES, Recommendation, recommend
from costmodel.optimizers.search import Choice
from hardware_profiles.units import MILLI
from traces.kinds.tree import Tree
from traces.library import default_traces

NOTHING = "No smaller batch or context, more devices or narrower format that was tried holds"
USED = (
    "model", "device", "engine", "dtype", "tp", "trace", "context", "tree_nodes", "slo_tpot_ms", "slo_ttft_ms", "seed",
)  # fmt: skip


def answer_run(state: State) -> Answer:
    """The page's answer at the state's batch; where that does not fit or misses a limit, why, and what would hold.

    Raises:
        InputError: options that exclude each other.
    """
    question = with_values(State(), {name: getattr(state, name) for name in USED})
    if state.batch not in DEFAULT_BATCHES:
        question = with_values(question, {"batch": state.batch})
    try:
        found, body = _recommended(question)
    except NothingAllowedError as error:
        return _impossible(state, error.unmet, None)
    unmet = found.optimum.unmet
    if any(each.batch == state.batch for each in unmet):
        return _impossible(state, unmet, body)
    batch = state.batch
    here = {
        **body,
        "choices": [row for row in body["choices"] if row["batch"] == batch],
        "alternatives": [row for row in body["alternatives"] if row["batch"] == batch],
    }
    row = here["choices"][0]
    choice = next(c for c in found.winners if c.batch == batch)
    return Answer(
        headline=headline(here),
        command=_command(state),
        numbers=_numbers(row),
        cards=_cards(body, here, state.context),
        tables=[("Every method's best configuration here", [_table_row(c) for c in charts.rows(here)])],
        files={"rooftree-engine-files.zip": lambda: _packed(question)},
        notes=[text for text in (_sentence(across_batches(body)), *_rests_on(found, choice)) if text],
        deferred=lambda: DeferredAnswer(notes=[_why(question, batch)], tables=_missed(state, unmet)),
    )


def _impossible(state: State, unmet: Sequence[Unmet], body: dict[str, Any] | None) -> Answer:
    """The answer where nothing is allowed at the state's batch: marked rows, and the batches that are left."""
    here = next(each for each in unmet if each.batch == state.batch)
    (row,) = unmet_rows([here], _limits(state))
    nearest = ", ".join(map(change_words, row["nearest"]))
    missed = {"memory": "does not fit", "limits": "misses the limits"}[here.misses]
    return Answer(
        headline=f"Batch {state.batch:,} {missed}: {as_words(here.reason)}. "
                 f"{f'Nearest that holds: {nearest}' if nearest else NOTHING}.",
        command=_command(state),
        cards=[] if body is None else _lines(body, state.context),
        notes=[] if body is None else [f"The charts show the batches that hold: {_batches(body)}."],
        deferred=lambda: DeferredAnswer(tables=_missed(state, unmet)),
    )  # fmt: skip


def _missed(state: State, unmet: Sequence[Unmet]) -> list[tuple[str, Sequence[Row]]]:
    """The batches at which nothing is allowed, as marked rows."""
    if not unmet:
        return []
    rows: Sequence[Mapping[str, Any]] = unmet_rows(unmet, _limits(state))
    return [("What does not hold", [
        {"batch": row["batch"], "misses": row["misses"],
         "nearest that holds": ", ".join(map(change_words, row["nearest"])) or "nothing that was tried",
         "why": as_words(row["reason"])}
        for row in rows
    ])]  # fmt: skip


def _batches(body: dict[str, Any]) -> str:
    return ", ".join(f"{batch:,}" for batch in sorted({int(row["batch"]) for row in body["choices"]}))


def _limits(state: State) -> Limits:
    return Limits(ttft_s=milliseconds(state.slo_ttft_ms), tpot_s=milliseconds(state.slo_tpot_ms))


@lru_cache(maxsize=64)
def _recommended(state: State) -> tuple[Recommendation, dict[str, Any]]:
    found = recommend(
        scenario(state, method="plain-decoding"),
        [trace_path(state.trace)] if state.trace else default_traces(),
        batches=sorted({*DEFAULT_BATCHES, state.batch}),
        contexts=[state.context],
        tree_sizes=[state.tree_nodes],
        limits=_limits(state),
        seed=state.seed,
    )
    return found, recommendation(found, {"model": state.model, "device": state.device, "engine": state.engine}, {})


def _packed(state: State) -> bytes:
    """Every engine's files in one archive, a folder each."""
    found, _ = _recommended(state)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as folder:
        for entry in deployables(found, draft=state.draft or None, context=state.context):
            for name, text in entry.result.files.items() if entry.result else ():
                folder.writestr(zipfile.ZipInfo(f"{entry.engine}/{name}"), text)
    return packed.getvalue()


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""


@lru_cache(maxsize=64)
def _why(state: State, batch: int) -> str:
    """What bounds the winner's step at a batch, and what would move it."""
    found, _ = _recommended(state)
    choice = next(c for c in found.winners if c.batch == batch)
    return explain(
        choice.contender.setting, choice.acceptance, batch=batch, context=choice.context,
        generator=np.random.default_rng(state.seed),
    ).sentence  # fmt: skip


def _command(state: State) -> str:
    asked = scenario(state, method="plain-decoding")
    return command(
        ["optimize"],
        options(asked) | {
            "batch": None if state.batch in DEFAULT_BATCHES else state.batch,
            "context": state.context, "tree-nodes": state.tree_nodes,
            "slo-tpot": state.slo_tpot_ms or None, "slo-ttft": state.slo_ttft_ms or None,
            "trace": shown_path(trace_path(state.trace)) if state.trace else None, "seed": state.seed or None,
        },
    )  # fmt: skip


def _numbers(row: dict[str, Any]) -> list[tuple[str, str]]:
    spread = charts.interval_words(row["speedup_interval"], "×")
    return [
        ("Speedup (80 % interval)", f"{charts.digits(row['speedup'])}× ({spread})"),
        ("Whole batch", f"{charts.digits(row['tokens_per_s'])} tokens/s"),
        ("Tokens per step", charts.digits(row["tokens_per_step"])),
        ("Step", f"{charts.digits(row['step_s'] / MILLI)} ms"),
    ]


def _table_row(row: Any) -> dict[str, Any]:
    return {
        "method": row["method"], "drafts": charts.draft_words(row),
        "tokens per step": round(row["tokens_per_step"], 3), "step (ms)": round(row["step_s"] / MILLI, 3),
        "tokens/s": round(row["tokens_per_s"], 1), "speedup (×)": round(row["speedup"], 3),
        "80 % interval (×)": charts.interval_words(row["speedup_interval"]), "limit": row["limit"],
    }  # fmt: skip


def _cards(body: dict[str, Any], here: dict[str, Any], context: int) -> list[Card]:
    cards = _lines(body, context)
    if (figure := charts.acceptance_figure(body)) is not None:
        cards.append(Card(title="Tokens per step", note="Replayed on the recordings.", figure=figure))
    if (row := charts.best_tree(here)) is not None:
        shape = Tree.from_json(row["tree"])
        cards.append(Card(title=f"Best tree: {shape.draft_tokens} draft tokens", note="Coloured by how often it helps.",
                          figure=charts.tree_figure(shape, charts.path_acceptance(body, row))))  # fmt: skip
    return cards


def _lines(body: dict[str, Any], context: int) -> list[Card]:
    """Charts over batch."""
    return [
        Card(title="Speedup", note="Against no speculation at the same batch; bands are 80 % intervals.",
             figure=charts.speedup_figure(body, context)),
        Card(title="Throughput", note="Tokens per second of the whole batch.",
             figure=charts.throughput_figure(body, context)),
        Card(title="Step time", note="Of the winner at every batch, by phase.",
             figure=charts.step_time_figure(body, context)),
    ]  # fmt: skip


def _rests_on(recommendation: Recommendation, choice: Choice) -> Sequence[str]:
    notes = []
    source = recommendation.source(choice)
    if source.borrowed:
        recorded = source.model or "an unnamed model"
        notes.append(f"Acceptance was recorded on {recorded} and is borrowed: your model's own may differ.")
    if unmet := recommendation.optimum.unmet:
        notes.append(f"Nothing holds at batch {', '.join(f'{each.batch:,}' for each in unmet)}: see the last table.")
    device = choice.contender.setting.device
    if not device.calibrated:
        notes.append(f"Constants of {device.name} are those of {device.constants_from}; it was not measured itself.")
    return notes
