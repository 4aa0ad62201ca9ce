"""`breakeven` of a method that refines masked blocks: from how many tokens a pass it beats the
model token by token.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.answers.cells import LISTED, cells_of, marked, require_one, runnable, several
from app.cli.output import Answered
from app.cli.shown.marked import mark_words, say_marked
from app.questions.groups import AcceptanceOptions

if TYPE_CHECKING:
    from costmodel.answers.estimate import Setting
    from costmodel.configuration import DecodingConfiguration
    from costmodel.laws.acceptance import Acceptance
    from costmodel.optimizers.drafters.sources import Source

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class BreakevenQuestion:
    """What is asked of every model, device and engine.

    Args:
        base: the configuration, with the policy that is asked about.
        source: where its tokens per pass are known from; None: nothing says.
        batches: requests.
        contexts: cached tokens per request before the canvas.
        seed: of the intervals.
    """

    base: "DecodingConfiguration"
    source: "Source | None"
    batches: Sequence[int]
    contexts: Sequence[int]
    seed: int


def breakeven_refining(
    options: Mapping[str, Any],
    accepted: AcceptanceOptions,
    trace: Path | None,
    shape: Mapping[str, Any],
    deliver_as: Mapping[str, Any],
) -> Answered:
    """Answer `breakeven` where its options name a method that refines masked blocks.

    Args:
        options: on the command line, those that are None not given; `batch`, `context` and `seed`
            among them.
        accepted: what is accepted, by options.
        trace: of --trace.
        shape: options of drafts, which masked blocks have none of.
        deliver_as: `json`, `out`, `csv` and `quiet`.

    Raises:
        InputError: options of drafts, or no cell that can run.
    """
    from app.questions.values import whole_numbers

    placed = {
        key: value for key, value in options.items() if key not in ("batch", "context", "seed")
    }
    base, source = _question(placed, accepted, trace, shape)
    about = BreakevenQuestion(
        base=base,
        source=source,
        batches=whole_numbers(options["batch"], "--batch", least=1),
        contexts=whole_numbers(options["context"], "--context", least=0),
        seed=options["seed"],
    )
    inputs = {
        **options,
        "method": base.method,
        "trace": str(trace) if trace else None,
        "tokens_per_step": accepted.tokens_per_step,
    }
    return _answered(about, cells_of(options), inputs, deliver_as)


def _question(
    options: Mapping[str, Any],
    accepted: AcceptanceOptions,
    trace: Path | None,
    shape: Mapping[str, Any],
) -> "tuple[DecodingConfiguration, Source | None]":
    """The configuration of a method that refines masked blocks, and where its pace is known from.

    Args:
        options: on the command line, those that are None not given.
        accepted: what is accepted, by options.
        trace: of --trace.
        shape: options of drafts, which masked blocks have none of.

    Returns:
        The configuration under the policy of the source; the source is None where no pace is known.

    Raises:
        InputError: options of drafts, or as `one_source`.
    """
    from dataclasses import replace

    from app.questions.resolve.accepted import one_source
    from app.questions.resolve.asked import asked
    from hardware_profiles.errors import InputError

    for name, value in shape.items():
        if value is not None:
            rule = "belongs to drafts, and masked blocks have none"
            raise InputError(rule, key=f"--{name.replace('_', '-')}", value=str(value))
    base = asked(None, {name: value for name, value in options.items() if value is not None})
    unknown = trace is None and accepted.tokens_per_step is None and not accepted.drafter
    if unknown and base.refine is not None and not base.refine.rule.by_count:
        return base, None
    source = one_source(
        accepted,
        trace,
        method=base.method,
        model=base.deployment.model,
        refine=base.refine,
        canvas=base.canvas_tokens,
    )
    if source is None or source.refine is None:
        return base, source
    return replace(base, refine=source.refine, canvas_tokens=source.canvas_tokens), source


def _answered(
    asked: BreakevenQuestion,
    cells: Sequence[Mapping[str, str]],
    inputs: Row,
    deliver_as: Mapping[str, Any],
) -> Answered:
    """Answer for every cell, batch and context.

    Args:
        asked: what is asked.
        cells: models, devices and engines.
        inputs: what was asked, as the answer repeats it.
        deliver_as: `json`, `out`, `csv` and `quiet`.

    Raises:
        InputError: no cell that can run.
    """
    from app.answers.optimize import acceptance
    from app.cli.output import deliver
    from app.questions.resolve.accepted import numbers_words
    from app.questions.resolve.asked import with_options
    from app.render.text import say
    from costmodel.answers.settings import build_setting

    points: list[Row] = []
    batches: list[Row] = []
    for cell, setting in runnable(
        cells, lambda cell: build_setting(with_options(asked.base, cell))
    ):
        names = {name: cell[name] for name in LISTED}
        places = [(c, b) for c in asked.contexts for b in asked.batches]
        if isinstance(setting, str):
            points += [
                {**names, "batch": b, "context": c, "feasible": False, "reason": setting}
                for c, b in places
            ]
            continue
        one = with_options(asked.base, cell)
        points += [names | _point(one, setting, asked, batch=b, context=c) for c, b in places]
        if asked.source is not None:
            batches += [names | _paying(setting, asked, context) for context in asked.contexts]
    answer: Row = {"inputs": inputs, "points": points}
    if asked.source is not None:
        answer |= {"acceptance": acceptance(asked.source), "batches": batches}

    def show() -> None:
        _print(answer)
        for line in numbers_words(asked.source):
            say(line)

    delivered = deliver(answer, name="breakeven", show=show, rows=["points"], **deliver_as)
    require_one(points)
    return delivered


def _pace(setting: "Setting", asked: BreakevenQuestion) -> "Acceptance":
    """At the known tokens per pass, or the entry's where only memory is asked for."""
    from costmodel.laws.own_pace import own_pace

    return own_pace(
        setting.drafter.method, None if asked.source is None else asked.source.own_tokens_per_step
    )


def _point(
    one: "DecodingConfiguration",
    setting: "Setting",
    asked: BreakevenQuestion,
    *,
    batch: int,
    context: int,
) -> Row:
    """The break-even of a cell, or its mark where it does not fit."""
    import numpy as np

    from app.answers.feasible import require_cell
    from costmodel.answers.estimate import estimate, intervals
    from costmodel.answers.refine_breakeven import needed_pace
    from hardware_profiles.errors import InfeasibleError

    pace = _pace(setting, asked)
    row: Row = {"batch": batch, "context": context, "draft_tokens": None}
    try:
        require_cell(one, setting, pace, batch=batch, context=context)
    except InfeasibleError as error:
        return row | marked(one, pace, str(error), batch=batch, context=context)
    needed = needed_pace(
        setting, batch=batch, context=context, generator=np.random.default_rng(asked.seed)
    )
    verdict = (
        "never"
        if needed.tokens_per_pass is None
        else "always"
        if needed.tokens_per_pass <= 1.0
        else "on"
    )
    row |= {
        "feasible": True,
        "block_tokens": setting.drafter.method.shape.nodes,
        "verdict": verdict,
        "least_tokens_per_step": needed.tokens_per_pass,
        "least_tokens_per_step_interval": needed.bounds and list(needed.bounds),
        "most_tokens_per_step": needed.most,
        "twin_tokens_per_s": needed.twin_tokens_per_s,
    }
    if asked.source is None:
        return row
    result = estimate(setting, pace, batch=batch, context=context)
    spread = intervals(setting, result, batch=batch, generator=np.random.default_rng(asked.seed))
    return row | {
        "tokens_per_step": pace.tokens_per_step,
        "tokens_per_s": float(result.tokens_per_s),
        "speedup": float(result.speedup),
        "speedup_interval": [float(each) for each in spread.speedup],
        "pays": bool(result.speedup > 1.0),
    }


def _paying(setting: "Setting", asked: BreakevenQuestion, context: int) -> Row:
    """At which batches the known pace pays at a context."""
    import numpy as np

    from app.answers.explanations import paying_batches as as_json
    from costmodel.answers.breakeven import MOST_BATCH, paying_batches
    from costmodel.answers.fit import fits

    pace, tried = _pace(setting, asked), np.arange(1, MOST_BATCH + 1, dtype=np.float64)
    largest = max(1, int(fits(setting, pace, batch=tried, context=context).sum()))
    generator = np.random.default_rng(asked.seed)
    return as_json(
        paying_batches(setting, pace, context=context, largest=largest, generator=generator), 0
    )


def _print(answer: Row) -> None:
    from app.answers.numbers import fixed, plain, ranged
    from app.render.html.refining_words import paying_words
    from app.render.text import print_table, say

    inputs, points = answer["inputs"], answer["points"]
    names = [name for name in LISTED if "," in str(inputs[name])]

    def cells(point: Row) -> list[str]:
        first = [*(point[name] for name in names), plain(point["batch"]), plain(point["context"])]
        if not point["feasible"]:
            return [*first, mark_words(point), "", "", ""]
        needed = f"never ({point['most_tokens_per_step']:g} at most)"
        if point["verdict"] != "never":
            needed = ranged(
                point["least_tokens_per_step"], point["least_tokens_per_step_interval"], 2
            )
        known = ["", ""]
        if "speedup" in point:
            known = [
                fixed(point["tokens_per_step"], 2),
                ranged(point["speedup"], point["speedup_interval"], 2),
            ]
        return [*first, needed, plain(point["twin_tokens_per_s"]), *known]

    columns = [
        *names,
        "batch",
        "context",
        "needed tokens/pass",
        "twin tokens/s",
        "tokens/pass",
        "speedup",
    ]
    title = " on ".join(several(str(inputs[name]), name) for name in ("model", "device"))
    title += (
        f", {inputs['method']}, {several(str(inputs['engine']), 'engine')}: when does it beat one"
        " token a pass?"
    )
    print_table(
        title,
        columns,
        [cells(p) for p in points],
        caption="brackets: 80 % intervals of the cost model",
        once=[*names, "context"],
    )
    say("twin: the same model decoded one token a pass with a KV cache")
    for row in answer.get("batches", ()):
        say(
            ": ".join(
                [*([", ".join(row[name] for name in names)] if names else []), paying_words(row)]
            )
        )
    say_marked(points, names)
