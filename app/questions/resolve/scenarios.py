"""Which scenario do the options of `simulate` ask about?

A file of sections, a configuration in the place of some, options and `--set` over all of them.
Leaves out what becomes of a scenario (`simulator.scenario.build`).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from app.questions.groups import AcceptanceOptions, RefiningOptions
from app.questions.resolve.accepted import KNOWN_BY, drafter_values
from app.questions.resolve.refining import refine_values
from app.questions.spelled_options import named_by_option
from costmodel.configuration import DecodingConfiguration
from costmodel.configuration.file import read_configuration
from hardware_profiles.errors import InputError
from simulator.scenario.configured import limits_of, sections_of
from simulator.scenario.defaults import logged_options
from simulator.scenario.file import ScenarioFile, checked_scenario, read_scenario_sections
from simulator.scenario.schema import assignments, with_values
from simulator.scenario.usual_requests import with_usual_requests
from traces.kinds.naming import naming

_SHAPES = ("shape", "draft_tokens", "tree")
_WORDS = {"max_requests": "requests in flight", "token_budget": "query tokens an iteration"}


def asked_scenario(
    named: Mapping[str, Any],
    assigned: Iterable[str],
    file: Path | None,
    config: Path | None,
    refining: RefiningOptions,
    accepted: AcceptanceOptions,
    *,
    options: Mapping[str, str],
) -> tuple[ScenarioFile, list[str]]:
    """The scenario of a file, with a configuration, named options and `--set` over it, and what was
    assumed of it.

    Args:
        named: by key, of the options that stand on the command line.
        assigned: texts of `--set`.
        file: sections; None: there are none but those of the rest.
        config: whose deployment, speculation and limits are simulated; None: what is named alone.
        refining: how masked blocks are decoded.
        accepted: what names a drafter.
        options: option by key, for refusals.

    Returns:
        The scenario, and remarks: traffic that was assumed, where published acceptance comes from,
        limits that the configuration states.

    Raises:
        InputError: anything that makes no scenario.
    """
    sections = read_scenario_sections(file) if file is not None else {}
    stated = assignments(assigned)
    values = {**named, **stated}
    chosen = None
    if config is not None:
        with naming(str(config)):
            chosen = read_configuration(config)
            sections = _configured(chosen, sections, values, file)
    drafted = sections.get("speculation")
    if isinstance(drafted, dict) and any(f"speculation.{key}" in values for key in KNOWN_BY):
        sections = {**sections, "speculation": {**drafted, **dict.fromkeys(KNOWN_BY)}}
    values |= refine_values(refining, with_values(sections, values).get("speculation"))
    sections, assumed = with_usual_requests(with_values(sections, values))
    known, source = drafter_values(
        accepted,
        named.get("speculation.method") or "",
        _keys_of(sections, "speculation"),
        {key.removeprefix("speculation."): value for key, value in values.items()},
        model=str(_keys_of(sections, "deployment").get("model") or ""),
    )
    sections = with_values(sections, {f"speculation.{key}": known[key] for key in known})
    try:
        written = checked_scenario(sections, file)
    except InputError as error:
        raise named_by_option(error, options, named.keys() - stated.keys()) from None
    remarks = [assumed] if assumed else []
    if source is not None and source.kind == "published":
        remarks.append(f"acceptance {source.label}")
    if chosen is not None:
        written, limit_remarks = _limited(chosen, written)
        remarks += limit_remarks
    return written, remarks


def _keys_of(sections: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The keys of a section; none where there is none, or where it holds no keys."""
    section = sections.get(name)
    return section if isinstance(section, Mapping) else {}


def _configured(
    chosen: DecodingConfiguration,
    sections: Mapping[str, Any],
    values: Mapping[str, Any],
    file: Path | None,
) -> dict[str, Any]:
    """Sections of a scenario with the deployment and the speculation of a configuration."""
    for name in ("deployment", "speculation", "blocks", "profile"):
        if sections.get(name) is not None:
            raise InputError(
                "stands in the configuration already; leave out one of them", file=file, key=name
            )
    configured = sections_of(chosen)
    drafted = configured["speculation"]
    if drafted is not None and values.keys() & {f"speculation.{name}" for name in _SHAPES}:
        without = dict.fromkeys(_SHAPES)
        if "speculation.shape" in values:
            without["stop"] = None  # a shape says when it ends
        configured["speculation"] = {**drafted, **without, "schedule": []}
    return {**sections, **configured}


def _limited(
    chosen: DecodingConfiguration, written: ScenarioFile
) -> tuple[ScenarioFile, list[str]]:
    """A scenario with the limits that a configuration states, and what is said of them: those
    stated beside it win.
    """
    limits, stated = limits_of(chosen, written), written.scheduler
    stated_limits = (
        {}
        if stated.engine_log is None
        else logged_options(stated.engine_log, stated.block_tokens or 1)
    )
    stated_limits |= stated.model_dump(include=set(limits), exclude_none=True)
    taken = {key: value for key, value in limits.items() if key not in stated_limits}
    remarks = [
        f"scheduler.{key} is {stated_limits[key]:,}, as stated beside the configuration, which has {value:,}"
        for key, value in limits.items()
        if stated_limits.get(key, value) != value
    ]
    if taken:
        words = " and ".join(f"{value:,} {_WORDS[key]}" for key, value in taken.items())
        remarks.append(f"at most {words}, as the configuration has it")
    return written.model_copy(update={"scheduler": stated.model_copy(update=taken)}), remarks
