"""`breakeven`: the least acceptance, the greatest draft cost and the batches at which a method
pays.
"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from app.answers.cells import LISTED, cells_of, marked, require_one, runnable, several
from app.cli.output import Answered
from app.cli.shown.marked import mark_words, say_marked
from app.cli.verbs.breakeven_refining import breakeven_refining
from app.questions.field import Field, Group
from app.questions.fields import (
    Batch,
    Context,
    Csv,
    DraftShapes,
    Fidelity,
    Json,
    MethodOrTraces,
    Model,
    Out,
    Quiet,
    Seed,
    Trace,
    TreeFile,
)
from app.questions.groups import AcceptanceOptions, DraftingOptions, PlacedOptions, RefiningOptions
from app.questions.resolve.accepted import (
    OTHERWISE,
    as_given,
    draft_lengths,
    lengths_for,
    numbers_words,
    one_source,
)
from app.questions.resolve.asked import asked, with_options
from app.questions.resolve.refining import refines
from app.questions.values import method_slug, ratio, whole_numbers

if TYPE_CHECKING:
    from costmodel.answers.estimate import Setting
    from costmodel.configuration import DecodingConfiguration
    from costmodel.laws.acceptance import Acceptance


def breakeven(
    model: Model,
    placed: PlacedOptions,
    drafting: DraftingOptions,
    accepted: AcceptanceOptions,
    refining: RefiningOptions,
    method: MethodOrTraces = "",
    trace: Trace = None,
    tree: TreeFile = None,
    shape: DraftShapes = None,
    batch: Batch = "1,8,64",
    context: Context = "1024",
    draft_tokens: Annotated[
        str | None,
        Field("Draft tokens K, comma-separated. Default: 3.", Group.DRAFTING),
    ] = None,
    fidelity: Fidelity = "calibrated",
    out: Out = None,
    csv: Csv = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """Say from which acceptance, to which draft cost and at which batches a method beats plain
    decoding.
    """
    from app.answers.optimize import acceptance
    from app.cli.output import deliver
    from app.questions.resolve.configurations import (
        compared,
        named_shapes,
        shapes_for,
        unknown,
    )
    from app.render.html.explain_report import write_break_even
    from app.render.html.page import plots_available
    from app.render.text import say
    from costmodel.answers.settings import build_setting
    from costmodel.optimizers.drafters.competing import carried, competing
    from costmodel.optimizers.drafters.origin import proposal_share

    deliver_as: dict[str, Any] = {"json": json, "out": out, "csv": csv, "quiet": quiet}
    asked_lengths, cells = (
        draft_lengths(draft_tokens, least=1),
        cells_of({**asdict(placed), "model": model}),
    )
    if refines(method, asdict(refining)):
        options = {
            **asdict(placed),
            **asdict(refining),
            "model": model,
            "method": method,
            "fidelity": fidelity,
            "batch": batch,
            "context": context,
            "seed": seed,
        }
        drafts = {"shape": shape, "draft_tokens": draft_tokens, "tree": tree, **asdict(drafting)}
        return breakeven_refining(options, accepted, trace, drafts, deliver_as)
    source = one_source(
        accepted, trace, method=method, model=cells[0]["model"], lengths=asked_lengths or ()
    )
    slug = (method_slug(method, "--method") or OTHERWISE) if source is None else source.method
    base = asked(
        None,
        {
            **asdict(placed),
            **asdict(drafting),
            "model": model,
            "method": slug,
            "fidelity": fidelity,
        },
    )
    if source is not None:
        (source,) = competing(with_options(base, cells[0]), [source])
        base = replace(base, **carried(source))
    settings = runnable(cells, lambda cell: build_setting(with_options(base, cell)))
    lengths = lengths_for(source, asked_lengths, [3])
    shapes = named_shapes(shape, {"--draft-tokens": draft_tokens, "--tree": tree})
    share = ratio(accepted.match_rate, "--match-rate")
    found = (
        unknown(shapes or shapes_for(None, lengths, tree), proposal_share(slug, share))
        if source is None
        else compared(source, lengths, tree, seed, shapes)
    )
    found, known = [each for each in found if each.draft_tokens], source is not None
    contexts = whole_numbers(context, "--context", least=0)
    places = [(b, c) for c in contexts for b in whole_numbers(batch, "--batch", least=1)]
    inputs = {
        "model": model,
        "device": placed.device,
        "method": slug,
        "draft": drafting.draft,
        "trace": str(trace) if trace else None,
        "acceptance": as_given(accepted.acceptance),
        "tokens_per_step": accepted.tokens_per_step,
        "drafter": accepted.drafter or [],
        "match_rate": accepted.match_rate,
        "batch": batch,
        "context": context,
        "draft_tokens": None if shapes else ",".join(map(str, lengths)),
        "tree": str(tree) if tree else None,
        "shape": shape,
        "engine": placed.engine,
        "tp": placed.tp,
        "dtype": ",".join(
            dict.fromkeys(
                s.deployment.precision.label for _, s in settings if not isinstance(s, str)
            )
        ),
        "fidelity": fidelity,
        "set": placed.overrides or [],
        "seed": seed,
    }
    points: list[dict[str, Any]] = []
    ranges: list[dict[str, Any]] = []
    for cell, setting in settings:
        names = {name: cell[name] for name in LISTED}
        if isinstance(setting, str):
            points += [
                {**names, "batch": b, "context": c, "feasible": False, "reason": setting}
                for b, c in places
            ]
            continue
        one = with_options(base, cell)
        points += [
            names | _point(one, setting, a, b, c, known, seed) for a in found for b, c in places
        ]
        ranges += [names | _batches(setting, a, c, seed) for a in found for c in contexts if known]
    answer: dict[str, Any] = {"inputs": inputs, "points": points}
    if source is not None:
        answer |= {"acceptance": acceptance(source, found), "batches": ranges}

    def show() -> None:
        _print(answer)
        for line in (
            *filter(None, [answer.get("acceptance", {}).get("remark")]),
            *numbers_words(source, found),
        ):
            say(line)

    def draw(folder: Path) -> None:
        if plots_available():
            write_break_even(answer, folder / "breakeven.html")

    delivered = deliver(
        answer, name="breakeven", show=show, also=draw, rows=["points"], **deliver_as
    )
    require_one(points)
    return delivered


def _point(
    asked: "DecodingConfiguration",
    setting: "Setting",
    a: "Acceptance",
    batch: int,
    context: int,
    known: bool,
    seed: int,
) -> dict[str, Any]:
    """The break-even of a cell, or its mark where it does not fit."""
    import numpy as np

    from app.answers.explanations import break_even as as_json
    from app.answers.feasible import require_cell
    from costmodel.answers.breakeven import break_even
    from costmodel.answers.positions import require_positions
    from costmodel.optimizers.candidates.acceptance_law import acceptance_law
    from hardware_profiles.errors import InfeasibleError

    require_positions(setting.target, context)
    try:
        require_cell(asked, setting, a, batch=batch, context=context)
    except InfeasibleError as error:
        mark = marked(asked, a, str(error), batch=batch, context=context)
        return {"batch": batch, "context": context, "draft_tokens": a.draft_tokens} | mark
    generator = np.random.default_rng(seed)
    law = acceptance_law(setting.drafter.method, a)
    found = break_even(
        setting, a, law, batch=batch, context=context, has_recording=known, generator=generator
    )
    return {"feasible": True} | as_json(found)


def _batches(setting: "Setting", a: "Acceptance", context: int, seed: int) -> dict[str, Any]:
    import numpy as np

    from app.answers.explanations import paying_batches as as_json
    from costmodel.answers.breakeven import MOST_BATCH, paying_batches
    from costmodel.answers.fit import fits

    tried = np.arange(1, MOST_BATCH + 1, dtype=np.float64)
    fit = fits(setting, a, batch=tried, context=context)
    generator = np.random.default_rng(seed)
    found = paying_batches(
        setting, a, context=context, largest=max(1, int(fit.sum())), generator=generator
    )
    return as_json(found, a.draft_tokens)


def _print(answer: dict[str, Any]) -> None:
    from app.answers.numbers import fixed, plain, ranged, time_unit
    from app.render.text import print_table, say

    points, inputs = answer["points"], answer["inputs"]
    unit = time_unit([p["draft_s"] for p in points if p["feasible"]])
    names = [name for name in LISTED if "," in inputs[name]]

    def rate(p: dict[str, Any]) -> str:
        if p["verdict"] == "on" and p["least_acceptance"] is None:
            return ""  # its tokens per step say all
        if p["verdict"] == "on":
            return ranged(p["least_acceptance"], p["least_acceptance_interval"], 2)
        return (
            "always"
            if p["verdict"] == "always"
            else f"never ({p['most_tokens_per_step']:.2f} at most)"
        )

    def cells(p: dict[str, Any]) -> list[str]:
        first = [
            *(p[name] for name in names),
            plain(p["batch"]),
            plain(p["context"]),
            plain(p.get("draft_tokens")),
        ]
        if not p["feasible"]:
            return [*first, "", mark_words(p), "", "", "", ""]
        needed = [
            ranged(p["least_tokens_per_step"], p["least_tokens_per_step_interval"], 2),
            rate(p),
        ]
        if "greatest_draft_s" not in p:
            return [*first, *needed, unit.show(p["draft_s"]), "", "", ""]
        most = (
            "none" if p["greatest_draft_verdict"] == "never" else unit.show(p["greatest_draft_s"])
        )
        reached = [fixed(p["tokens_per_step"], 2), ranged(p["speedup"], p["speedup_interval"], 2)]
        return [*first, *needed, unit.show(p["draft_s"]), *reached, most]

    columns = [
        *names,
        "batch",
        "context",
        "K",
        "needed tokens/step",
        "needed acceptance",
        f"draft {unit.name}",
        "tokens/step",
        "speedup",
        f"draft {unit.name} at most",
    ]
    title = " on ".join(several(inputs[name], name) for name in ("model", "device"))
    title += f", {inputs['method']}, {several(inputs['engine'], 'engine')}: when does it pay?"
    print_table(
        title,
        columns,
        [cells(p) for p in points],
        caption="brackets: 80 % intervals",
        once=[*names, "context", "K"],
    )
    for found in answer.get("batches", ()):
        say(
            ": ".join(
                [*([", ".join(found[name] for name in names)] if names else []), _words(found)]
            )
        )
    say_marked(points, names)


def _words(answer: dict[str, Any]) -> str:
    where = f"K={answer['draft_tokens']}, context {answer['context']}"
    low, high = answer["last_batch_interval"]
    if answer["verdict"] == "never":
        maybe = f" (it may up to batch {high})" if high else ""
        return f"{where}: never pays, at no batch to {answer['largest_batch']}{maybe}"
    if answer["verdict"] == "always":
        maybe = f" (it may stop after batch {low})" if low < answer["largest_batch"] else ""
        return (
            f"{where}: always pays, at every batch to {answer['largest_batch']}, the largest"
            f" tried{maybe}"
        )
    ranges = ", ".join(f"{a}-{b}" if b > a else str(a) for a, b in answer["ranges"])
    return f"{where}: pays at batch {ranges}; stops after {answer['last_batch']} [{low}, {high}]"
