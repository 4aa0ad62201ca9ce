"""Which dashboard page shows a decoding configuration, and what is its link?

A link holds shipped names and bounded numbers alone, so that whoever opens it sees the same. Leaves out serving it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from app.dashboard.state import State, from_query, to_query
from costmodel.architectures.library import load_model
from costmodel.laws.acceptance import DepthRates
from hardware_profiles.errors import InputError
from traces.replay.statistics import fitted_acceptance

if TYPE_CHECKING:
    from costmodel.configuration import DecodingConfiguration


def state_of(chosen: DecodingConfiguration) -> State:
    """The question of a page that shows a configuration: the tree page for trees, otherwise the map.

    Args:
        chosen: any configuration; of a schedule the K at its batch.

    Raises:
        InputError: a part that no link can say: a file's path, an override, another number format of the cache.
    """
    where = chosen.deployment
    if where.overrides or where.transforms or where.kv_dtype is not None:
        raise InputError("a link names a shipped device and model without overrides", key="deployment")
    if chosen.topology not in ("off", "chain", "tree"):
        raise InputError("a link shows chains and static trees", key="shape", value=chosen.topology)
    batch = chosen.batch or 1
    shape = {"page": "map", "draft_tokens": max(chosen.draft_tokens_at(batch), 1)}
    if chosen.tree is not None:
        shape = {"page": "tree", "tree_nodes": chosen.draft_tokens, "depth": chosen.tree.depth}
    query = {
        "model": load_model(where.model).name, "device": where.device, "engine": where.engine, "dtype": where.dtype,
        "tp": where.tensor_parallel, "method": chosen.method, "draft": chosen.draft_model, "trace": chosen.trace,
        "batch": batch, "context": chosen.context, "acceptance_ratio": _one_rate(chosen, batch), **shape,
    }  # fmt: skip
    state, wrong = from_query({name: str(value) for name, value in query.items() if value is not None})
    if wrong:
        raise InputError(f"cannot stand in a link: {wrong[0]}")
    return state


def _one_rate(chosen: DecodingConfiguration, batch: int) -> float | None:
    """The one rate at which a chain emits what the stated rates say, which is all that a page knows of them."""
    length = chosen.draft_tokens_at(batch)
    if chosen.trace is not None or not chosen.acceptance_by_depth or not length:
        return None
    emitted = DepthRates(by_depth=chosen.acceptance_by_depth).chain(length).tokens_per_step
    return round(fitted_acceptance(emitted, length), 4)


def link(chosen: DecodingConfiguration, *, host: str, port: int) -> str:
    """The address of the page that shows a configuration.

    Args:
        chosen: any configuration.
        host: address that the dashboard listens on.
        port: port that it listens on.
    """
    return f"http://{host}:{port}/?{urlencode(to_query(state_of(chosen)))}"
