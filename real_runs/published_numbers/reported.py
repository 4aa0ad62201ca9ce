"""Which published numbers does the catalogue itself hold, in the form of a table's rows?

Every `reported` number of every entry, with its inputs. Leaves out the tables that people bring
(`reading.table`).
"""

from collections.abc import Iterable

from costmodel.method import Method, Reported
from costmodel.method_library import load_method, method_names
from real_runs.published_numbers.reading.sources import facts_of, row_facts_of
from real_runs.published_numbers.reading.table import PublishedRow

_UNITS = {
    "speedup": "",
    "tokens_per_step": "tokens/step",
    "tokens_per_s": "tok/s",
    "token_s": "s/token",
    "step_s": "s/step",
    "prompt_s": "s",
    "bytes_ratio": "x bytes",
}


def reported_rows(names: Iterable[str] = ()) -> list[PublishedRow]:
    """A row for every number that entries report.

    Args:
        names: slugs of entries; empty: all of them.

    Raises:
        UnknownNameError: there is no such entry.
    """
    chosen = [load_method(name) for name in names] or [load_method(slug) for slug in method_names()]
    return [_row(method, reported) for method in chosen for reported in method.reported]


def _row(method: Method, r: Reported) -> PublishedRow:
    """A reported number as a row; without hardware and acceptance it is a headline."""
    accepted = "" if r.tokens_per_step is None else f"tau={r.tokens_per_step}"
    has_acceptance = bool(
        accepted
        or r.acceptance is not None
        or method.refine is not None
        or r.quantity == "tokens_per_step"
    )
    shape = ""
    if r.draft_tokens is not None:
        trees = (
            method.shape.kind in ("static_tree", "dynamic_tree", "state_trees")
            and "chain" not in r.note
        )
        shape = f"static tree {r.draft_tokens} nodes" if trees else f"gamma={r.draft_tokens} chain"
    whole = bool(r.model and r.device and has_acceptance)
    speedup = r.quantity == "speedup"
    return PublishedRow(
        line=0,
        kind="refining" if method.refine is not None else "drafting",
        system=method.title,
        source=r.source,
        facts=facts_of(r.source),
        own_facts=row_facts_of(r.source, {}),
        group="full" if whole else ("partial" if r.model or r.device else "headline"),
        target=r.model,
        draft=r.draft,
        hardware=r.device,
        devices=str(r.devices),
        precision=r.dtype,
        batch="" if r.batch is None else str(r.batch),
        prompt="" if r.context is None else str(r.context),
        temperature="" if r.temperature is None else f"{r.temperature:g}",
        data=r.data,
        shape=shape,
        acceptance=_stated(method, r, accepted),
        value=None if speedup else r.value,
        unit=_UNITS[r.quantity],
        speedup=r.value if speedup else None,
        baseline_unit="" if r.relative_to == "plain-decoding" else r.relative_to,
        notes=r.note,
    )


def _stated(method: Method, r: Reported, accepted: str) -> str:
    """The acceptance of a reported number: a mean or a rate."""
    if method.refine is not None and r.tokens_per_step is not None:
        return f"TPF {r.tokens_per_step}"
    if r.acceptance is not None:
        return accepted or f"alpha={r.acceptance}"
    return accepted
