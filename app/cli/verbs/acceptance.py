"""`acceptance list`, `show` and `compare`: what was published about how many drafts a target keeps,
with its source.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from app.cli.output import Answered
from app.questions.field import Field, Group
from app.questions.fields import Drafters, Json, Out, Quiet, Seed

if TYPE_CHECKING:
    from costmodel.acceptance_library import Match, PublishedAcceptance
    from costmodel.optimizers.drafters.sources import Source

Method = Annotated[str | None, Field("Method slug (see `methods`).", Group.DRAFTING)]
Target = Annotated[
    str | None, Field("Target: shipped name, hub id or published name.", Group.WORKLOAD)
]
DataSet = Annotated[str | None, Field("Part of a data set's name, as mt-bench.", Group.WORKLOAD)]
Temperature = Annotated[float | None, Field("Sampling temperature.", Group.WORKLOAD)]
_SHOWN = (1, 2, 3, 5, 8)
_TYPICAL = 3


def list_(
    method: Method = None,
    model: Target = None,
    data_set: DataSet = None,
    temperature: Temperature = None,
    out: Out = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """List published figures; without a filter one line for each method and target."""
    from app.cli.output import deliver

    asked = {"method": method, "model": model, "data_set": data_set, "temperature": temperature}
    found = _figures(asked)
    body = {"inputs": {**asked, "seed": seed}, "entries": [_as_json(entry) for entry in found]}
    show = _show_all if any(value is not None for value in asked.values()) else _show_pairs
    return deliver(
        body, name="acceptance", json=json, out=out, quiet=quiet, show=lambda: show(found)
    )


def show(
    method: Annotated[str, Field("Method slug, as eagle-3.", Group.WORKLOAD, argument=True)],
    model: Annotated[str, Field("Target, as llama-3.1-8b.", Group.WORKLOAD, argument=True)],
    data_set: DataSet = None,
    temperature: Temperature = None,
    out: Out = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """Show the figure that suits a method on a target best, with its place, to quote."""
    from app.cli.output import deliver
    from costmodel.acceptance_library import best_match
    from hardware_profiles.errors import InputError

    slug = _known_method(method)
    match = best_match(slug, model, data_set=data_set, temperature=temperature)
    if match is None:
        raise InputError(
            "nothing was published of this method on such data", key="acceptance", value=method
        )
    body = {
        "inputs": {
            "method": slug,
            "model": model,
            "data_set": data_set,
            "temperature": temperature,
            "seed": seed,
        },
        "kinship": match.kinship,
        "label": match.label,
        "entry": _as_json(match.entry),
    }
    return deliver(
        body,
        name="acceptance",
        json=json,
        out=out,
        quiet=quiet,
        show=lambda: _show_one(match, model),
    )


def compare(
    method: Method = None,
    model: Target = None,
    data_set: DataSet = None,
    temperature: Temperature = None,
    drafter: Drafters = None,
    out: Out = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """Put published figures of chains beside each other, and beside rates or a trace of your
    own.
    """
    from app.cli.output import deliver
    from costmodel.acceptance_library import target_slug
    from costmodel.optimizers.drafters.named_drafters import drafter_source

    own = [drafter_source(text, model=model or "") for text in drafter or ()]
    asked = {"method": method, "model": model, "data_set": data_set, "temperature": temperature}
    chains = [entry for entry in _figures(asked) if entry.shape == "chain"]
    if own and method is None:
        chains = [entry for entry in chains if entry.method in {source.method for source in own}]
    rows = [{**_as_json(entry), "by_draft_tokens": _curve(entry)} for entry in chains]
    yours = [
        {
            "drafter": text,
            "method": source.method,
            "target": target_slug(model) if model else "",
            "kind": source.kind,
            "by_draft_tokens": _own_curve(source),
        }
        for text, source in zip(drafter or (), own, strict=True)
    ]
    body = {
        "inputs": {**asked, "drafter": drafter or [], "seed": seed},
        "entries": rows,
        "yours": yours,
    }
    return deliver(
        body,
        name="acceptance",
        json=json,
        out=out,
        quiet=quiet,
        show=lambda: _show_curves(chains, yours),
    )


def _figures(asked: dict[str, Any]) -> "tuple[PublishedAcceptance, ...]":
    """The figures that filters leave.

    Raises:
        InputError: none is left, or an unknown method.
    """
    from costmodel.acceptance_library import published
    from hardware_profiles.errors import InputError

    slug = None if asked["method"] is None else _known_method(asked["method"])
    found = published(slug, asked["model"], asked["data_set"], asked["temperature"])
    if not found:
        given = ", ".join(
            f"{name.replace('_', '-')} {value}"
            for name, value in asked.items()
            if value is not None
        )
        raise InputError("nothing was published of that; see `rooftree acceptance list`", key=given)
    return found


def _known_method(name: str) -> str:
    from costmodel.acceptance_library import published
    from hardware_profiles.errors import UnknownNameError

    slug = name.casefold().replace("_", "-")
    known = dict.fromkeys(entry.method for entry in published())
    if slug not in known:
        raise UnknownNameError(
            "method with published acceptance", name, list(known), key="--method"
        )
    return slug


def _as_json(entry: "PublishedAcceptance") -> dict[str, Any]:
    from dataclasses import asdict

    fields = asdict(entry)
    means = {
        str(draft_tokens): mean for draft_tokens, mean in sorted(entry.tokens_per_step.items())
    }
    return {
        **fields,
        "tokens_per_step": means,
        "draft_tokens": entry.draft_tokens,
        "bonus_token_included": True,
    }


def _curve(entry: "PublishedAcceptance") -> dict[str, float]:
    """Tokens per step by draft tokens, up to the most that were measured."""
    return {str(k): entry.mean_at(k) for k in range(1, entry.draft_tokens + 1)}


def _own_curve(source: "Source") -> dict[str, float]:
    """Tokens per step by draft tokens of a source that somebody names, as far as `_SHOWN` and what
    it holds.
    """
    from app.questions.resolve.configurations import law_of
    from costmodel.laws.acceptance import replay_by

    trace = source.positions
    if trace is not None:
        lengths = [k for k in _SHOWN if trace.depth is None or k <= trace.depth]
        law = law_of(trace, source.method, lengths)
        return {str(k): float(replay_by(trace, law, k).tokens_per_step) for k in lengths}
    if source.rates is None:
        return {}
    known = source.rates.measured
    return {
        str(k): source.rates.chain(k).tokens_per_step for k in _SHOWN if known is None or k <= known
    }


def _show_pairs(entries: "Sequence[PublishedAcceptance]") -> None:
    """One line for each method and target."""
    from app.answers.numbers import fixed
    from app.render.text import print_table

    rows = []
    for slug, target in sorted({(entry.method, entry.target) for entry in entries}):
        own = [entry for entry in entries if (entry.method, entry.target) == (slug, target)]
        chains = [
            e.mean_at(_TYPICAL) for e in own if e.shape == "chain" and e.draft_tokens >= _TYPICAL
        ]
        span = f"{fixed(min(chains), 2)} to {fixed(max(chains), 2)}" if chains else ""
        longest = max(entry.draft_tokens for entry in own)
        rows.append([slug, target, str(len(own)), str(longest), span])
    print_table(
        f"{len(entries)} published figures",
        ["method", "target", "figures", "longest draft", f"tokens/step at K={_TYPICAL}"],
        rows,
        caption=(
            "the bonus token is counted; narrow with --method, --model, --data-set, --temperature; "
            "`acceptance show METHOD MODEL` quotes one"
        ),
    )


def _show_all(entries: "Sequence[PublishedAcceptance]") -> None:
    from app.answers.numbers import fixed
    from app.render.text import print_table

    rows = [
        [
            e.method,
            e.target,
            e.data_set,
            "?" if e.temperature is None else f"{e.temperature:g}",
            e.shape.replace("_", " "),
            str(e.draft_tokens),
            fixed(e.mean_tokens_per_step, 2),
            _page(e.source),
        ]
        for e in entries
    ]
    print_table(
        f"{len(entries)} published figures",
        ["method", "target", "data set", "T", "shape", "K", "tokens/step", "source"],
        rows,
        caption=(
            "tokens/step at K draft tokens, the bonus token counted; T: temperature, ? where not"
            " stated"
        ),
        once=("method", "target", "shape"),
    )


def _show_one(match: "Match", asked: str) -> None:
    """The number, and its source to quote, on one screen."""
    from app.answers.numbers import fixed
    from app.render.text import print_table, say

    entry = match.entry
    how = {
        "own": f"{asked}: measured on this target",
        "family": f"{asked}: borrowed within its family from {entry.published_target}",
        "borrowed": f"{asked}: borrowed from another model, {entry.published_target}",
    }
    say(how[match.kinship])
    if entry.shape == "chain":
        lengths = range(1, entry.draft_tokens + 1)
        measured = {*entry.tokens_per_step, *range(1, len(entry.rates) + 1)}
        cells = [fixed(entry.mean_at(k), 2) + ("" if k in measured else "*") for k in lengths]
        rates = [fixed(rate, 2) for rate in entry.depth_rates(entry.draft_tokens)]
        print_table(
            f"{entry.method} on {entry.published_target}",
            ["draft tokens K", *map(str, lengths)],
            [["tokens per step", *cells], ["accepted at K", *rates]],
            caption=(
                "the bonus token is counted; accepted at K: share of drafts whose first K tokens"
                " are all kept"
            )
            + (
                ""
                if len(measured) == len(lengths)
                else "; * not measured: spread from the K that were"
            ),
        )
    else:
        mean = fixed(entry.mean_tokens_per_step, 2)
        say(
            f"{mean} tokens per step, {entry.draft_tokens} draft tokens as a"
            f" {entry.shape.replace('_', ' ')}"
        )
    if entry.counted == "proposals":
        say("counted over steps with a proposal alone; the others emit one token")
    about = {
        "drafter": entry.drafter or "not stated",
        "data set": entry.data_set,
        "temperature": "not stated" if entry.temperature is None else f"{entry.temperature:g}",
        "engine": entry.engine or "not stated",
        "source": entry.source,
        "place": entry.place,
        "licence": "a fact, quoted" if entry.licence == "fact" else entry.licence,
        "checked": entry.checked or "taken from a list of such figures, not compared again",
        "note": entry.note,
    }
    for name, value in about.items():
        if value:
            say(f"  {name}: {value}")
    say(f"more of it: rooftree acceptance list --method {entry.method} --model {entry.target}")


def _show_curves(entries: "Sequence[PublishedAcceptance]", yours: Sequence[dict[str, Any]]) -> None:
    """Tokens per step by draft length: yours, then what was published, the best at K = 3 first."""
    from app.answers.numbers import fixed
    from app.render.text import print_table

    best = sorted(entries, key=lambda e: -e.mean_at(min(_TYPICAL, e.draft_tokens)))
    rows = [
        [
            row["method"],
            row["target"],
            "",
            f"yours, {row['kind']}",
            "",
            *(fixed(row["by_draft_tokens"].get(str(k)), 2) for k in _SHOWN),
        ]
        for row in yours
    ]
    rows += [
        [
            e.method,
            e.target,
            _short(e.drafter),
            e.data_set,
            "?" if e.temperature is None else f"{e.temperature:g}",
            *(fixed(e.mean_at(k), 2) if k <= e.draft_tokens else "" for k in _SHOWN),
        ]
        for e in best
    ]
    print_table(
        "Tokens per step by draft tokens K",
        ["method", "target", "drafter", "data set", "T", *(f"K={k}" for k in _SHOWN)],
        rows,
        caption="the bonus token is counted; lengths between those measured are spread from them",
        once=("method", "target", "drafter"),
    )


def _page(source: str) -> str:
    """A source without the site that hosts it."""
    return source.removeprefix("github.com/").removeprefix("huggingface.co/")


def _short(drafter: str) -> str:
    """A drafter without its owner."""
    return drafter.rsplit("/", 1)[-1]
