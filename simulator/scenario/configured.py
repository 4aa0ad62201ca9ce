"""Which sections of a scenario say the same as a decoding configuration?

A configuration names a deployment, how it decodes, and some limits of the scheduler; traffic and
the rest stand in the other sections. Leaves out what becomes of sections
(`simulator.scenario.build`).
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any, get_args

from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.draft_shape import dynamic
from costmodel.method import Shape
from costmodel.method_library import load_method
from hardware_profiles.errors import InputError
from simulator.scenario.copies import copies_of
from simulator.scenario.file import DeploymentSection, ScenarioFile
from simulator.scenario.sections import StopSection


def sections_of(chosen: DecodingConfiguration) -> dict[str, Any]:
    """The sections `deployment` and `speculation` of a configuration; the latter is None where
    nothing is drafted.

    Args:
        chosen: any configuration; what it was chosen for (batch, context) is left to the traffic.

    Raises:
        InputError: no recording to walk along, or a part that simulations do not have.
    """
    return {"deployment": _deployment(chosen.deployment), "speculation": _speculation(chosen)}


def limits_of(chosen: DecodingConfiguration, written: ScenarioFile) -> dict[str, int]:
    """The limits of a scheduler that a configuration states, as keys of the section `scheduler`.

    Args:
        chosen: whose `max_batch` counts the requests of all data copies, and `token_budget` the
            tokens of one; the exporters write both for every copy.
        written: the scenario; copies that it simulates as one scheduler have the limits of all of
            them.
    """
    copies = written.deployment.data_parallel
    together = copies if copies_of(written, None).schedulers == 1 else 1
    limits = {
        "max_requests": chosen.max_batch and -(-chosen.max_batch // copies) * together,
        "token_budget": chosen.token_budget and chosen.token_budget * together,
    }
    return {key: value for key, value in limits.items() if value}


def _deployment(names: DeploymentNames) -> dict[str, Any]:
    values = asdict(names)
    simulated = DeploymentSection.model_fields
    for field in fields(DeploymentNames):
        if field.name not in simulated and values[field.name] != field.default:
            raise InputError(
                "is not simulated", key=f"deployment.{field.name}", value=values[field.name]
            )
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if name in simulated
    }


def _speculation(chosen: DecodingConfiguration) -> dict[str, Any] | None:
    if chosen.topology == "block" or (
        chosen.trace is not None and load_method(chosen.method).refine is not None
    ):
        return _refining(chosen)
    if not chosen.speculates:
        return None
    is_sized = chosen.topology in ("chain", "state_trees")  # told by its size alone
    if chosen.trace is None and not (
        is_sized and (chosen.acceptance_by_depth or chosen.tokens_per_step)
    ):
        rule = (
            "must name the recording that simulated requests walk along, or state what is accepted"
            " of a chain"
        )
        raise InputError(rule, key="trace")
    if chosen.topology not in ("chain", "tree", "dynamic_tree", "state_trees"):
        raise InputError(
            "simulations draft chains and trees", key="shape.kind", value=chosen.topology
        )
    section = {
        **_known(chosen),
        "method": chosen.method,
        "draft": chosen.draft_model,
        "exit_layer": chosen.exit_layers,
        "draft_name": chosen.draft_name,
        "draft_passes": chosen.draft_passes,
        "draft_bytes": chosen.draft_bytes,
        "match_rate": chosen.match_rate,
        "schedule": [list(row) for row in chosen.schedule],
        "stop": _stop(chosen),
    }
    if chosen.tree is not None:
        return section | {"tree": chosen.tree.to_json()}
    if isinstance(chosen.shape, Shape) and not is_sized:
        return section | {"shape": str(dynamic(chosen.shape))}
    return section | {"draft_tokens": chosen.draft_tokens}


def _refining(chosen: DecodingConfiguration) -> dict[str, Any]:
    """Masked blocks, by the configuration's policy or the method's own."""
    if chosen.trace is None:
        raise InputError(
            "must name the confidence trace that simulated requests walk along", key="trace"
        )
    policy = chosen.refine and chosen.refine.as_json()
    return {
        "trace": chosen.trace,
        "method": chosen.method,
        "refine": policy,
        "canvas_tokens": chosen.canvas_tokens,
    }


def _known(chosen: DecodingConfiguration) -> dict[str, Any]:
    """What is accepted: by a recording, else as stated."""
    if chosen.trace is not None:
        return {"trace": chosen.trace}
    if chosen.acceptance_by_depth:
        return {"acceptance": list(chosen.acceptance_by_depth), "known_tokens": chosen.known_tokens}
    return {"tokens_per_step": chosen.tokens_per_step}


def _stop(chosen: DecodingConfiguration) -> dict[str, Any]:
    if chosen.stop.rule not in get_args(StopSection.model_fields["rule"].annotation):
        raise InputError(
            "no kind of recording tells acceptance by exit layer",
            key="stop.rule",
            value=chosen.stop.rule,
        )
    return asdict(chosen.stop)
