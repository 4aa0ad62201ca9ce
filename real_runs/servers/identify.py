"""Which engine answers at an address, and what does it say it serves?

vLLM, SGLang, TensorRT-LLM and llama.cpp name themselves as the owner of the models that
`/v1/models` lists; llama.cpp's `/props` adds slots and the context of one. Leaves out the flags of
its start, which no endpoint tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hardware_profiles.errors import InputError, UnknownNameError
from real_runs.servers.address import Address
from real_runs.servers.engines import ENGINES, Kind, ServedEngine, kind_of
from real_runs.servers.event_loop import run
from real_runs.servers.exchange import Patience, fetch_object

_LONGEST_NAME = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """A server that answers.

    Attributes:
        address: where.
        kind: the engine; "openai" is any other one with that interface.
        model: the model that requests name.
        slots: requests that it decodes at a time; None where it does not say.
        context: tokens that one request may hold; None where it does not say.
    """

    address: Address
    kind: Kind
    model: str
    slots: int | None = None
    context: int | None = None

    @property
    def engine(self) -> ServedEngine:
        """What is known of its engine beforehand."""
        return ENGINES[self.kind]


def identify(
    address: Address, *, model: str | None = None, patience: Patience | None = None
) -> Server:
    """Ask a server what it is.

    Args:
        address: where it listens.
        model: one of several that it serves; None: its first.
        patience: None is the usual.

    Raises:
        UnreachableError: no connection.
        UnknownNameError: it does not serve that model.
        InputError: it lists no models, or answers something else.
    """
    return run(_identify(address, model, patience))


async def _identify(address: Address, model: str | None, patience: Patience | None) -> Server:
    listed = await fetch_object(address, "/v1/models", patience=patience)
    models = [
        model
        for model in _list(listed, "data")
        if isinstance(model, dict) and _names(model.get("id"))
    ]
    if not models:
        wanted = "lists no models: it must be a server with OpenAI's interface"
        raise InputError(wanted, key=f"{address}/v1/models")
    names = [model["id"] for model in models]
    if model is not None and model not in names:
        raise UnknownNameError("model", model, names, key=str(address))
    chosen = models[0 if model is None else names.index(model)]
    kind = kind_of(str(chosen.get("owned_by")))
    slots, context = None, _whole(chosen.get("max_model_len"))
    if kind == "llama.cpp":
        props = await fetch_object(address, "/props", patience=patience) or {}
        settings = props.get("default_generation_settings")
        slots = _whole(props.get("total_slots"))
        context = _whole(settings.get("n_ctx")) if isinstance(settings, dict) else None
    return Server(address=address, kind=kind, model=chosen["id"], slots=slots, context=context)


def _list(answer: Mapping[str, Any] | None, key: str) -> list[Any]:
    value = None if answer is None else answer.get(key)
    return value if isinstance(value, list) else []


def _names(value: object) -> bool:
    return isinstance(value, str) and value.isprintable() and 0 < len(value) <= _LONGEST_NAME


def _whole(value: object) -> int | None:
    return value if type(value) is int and 0 < value < 1 << 31 else None
