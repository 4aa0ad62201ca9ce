"""Which dashboard page shows a decoding configuration, and what is its link?

A link holds shipped names and bounded numbers alone, so that whoever opens it sees the same. Leaves
out serving it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from app.dashboard.device_numbers import modified_numbers
from app.dashboard.held import is_known_model
from app.dashboard.state import State, address, from_query
from costmodel.architectures.library import load_model, model_names
from hardware_profiles.errors import InputError

if TYPE_CHECKING:
    from costmodel.configuration import DecodingConfiguration


def state_of(chosen: DecodingConfiguration) -> State:
    """The question of a page that shows a configuration: the tree page for trees, otherwise the
    map.

    Args:
        chosen: any configuration; of a schedule the K at its batch.

    Raises:
        InputError: a part that no link can say: a file's path, an override of a constant, another
            number format of the cache.
    """
    where = chosen.deployment
    if where.transforms:
        raise InputError("a link names a model as it was published", key="transforms")
    if chosen.topology not in ("off", "chain", "tree"):
        raise InputError("a link shows chains and static trees", key="shape", value=chosen.topology)
    batch = chosen.batch or 1
    shape = {"page": "map", "draft_tokens": max(chosen.draft_tokens_at(batch), 1)}
    if chosen.tree is not None:
        shape = {"page": "tree", "tree_nodes": chosen.draft_tokens, "depth": chosen.tree.depth}
    query = {
        "model": where.model if is_known_model(where.model) else load_model(where.model).name,
        "device": where.device,
        **modified_numbers(where.device, where.overrides),
        "engine": where.engine,
        "dtype": where.dtype,
        "kv_dtype": where.kv_dtype,
        "draft_dtype": where.draft_dtype,
        "tp": where.tensor_parallel,
        "batch": batch,
        "context": chosen.context,
        **_drafter(chosen),
        **shape,
    }
    state, wrong = from_query(
        {
            name: f"{value:.10g}" if isinstance(value, float) else str(value)
            for name, value in query.items()
            if value is not None
        }
    )
    if wrong:
        raise InputError(f"cannot stand in a link: {wrong[0]}")
    return state


def _drafter(chosen: DecodingConfiguration) -> dict[str, object]:
    """The method, and where its acceptance is known from."""
    own: dict[str, object] = {
        "draft_name": chosen.draft_name,
        "draft_passes": chosen.draft_passes,
        "draft_bytes": None if chosen.draft_bytes is None else f"{chosen.draft_bytes:.10g}",
    }
    if chosen.trace is not None:
        return {"known_by": "recording", "trace": chosen.trace, "method": chosen.method, **own}
    rates = [f"{rate:.6f}".rstrip("0").rstrip(".") for rate in chosen.acceptance_by_depth or ()]
    values = {"method": chosen.method, "draft": _shipped(chosen.draft_model), **own}
    if len(rates) == 1:
        return values | {"known_by": "rate", "acceptance": rates[0]}
    return values | ({"known_by": "rates", "acceptance": ",".join(rates)} if rates else {})


def _shipped(draft: str | None) -> str | None:
    """A draft model by shipped name; None for heads and files, which stand in no link."""
    return draft if draft in model_names() else None


def link(chosen: DecodingConfiguration, *, host: str, port: int) -> str:
    """The address of the page that shows a configuration.

    Args:
        chosen: any configuration.
        host: address that the dashboard listens on.
        port: port that it listens on.
    """
    state = state_of(chosen)
    return f"http://{host}:{port}/{state.page}?{urlencode(address(state))}"
