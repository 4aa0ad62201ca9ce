"""What does a dashboard link say, and which command line gives the same answer?

A `State` is the whole question of a page. It is read from a URL's query with every value checked,
and written back with what differs from the defaults only. Leaves out answering (`answers_*`) and
widgets (`controls.widgets`).
"""

import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from costmodel.engine_library import engine_names
from costmodel.passes.formats import recipe_names
from hardware_profiles.errors import InputError
from hardware_profiles.units import MILLI
from traces.kinds.refine_policy import CACHES, COMMIT_RULES, MOST_CANVAS_TOKENS

PAGES = ("run", "map", "tree", "trace", "diffusion", "hardware", "pareto", "serving", "validation")
ENGINES = tuple(sorted(engine_names(), key=lambda name: (name != "vllm", name == "none", name)))
DTYPES = ("", *recipe_names())
CONTEXTS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
KV_DTYPES = ("", "bf16", "fp16", "fp8", "int8", "fp32")
KNOWN_BY = ("published", "rate", "rates", "recording", "upload")
FACTORS = ("bandwidth_ratio", "peak_ratio", "memory_ratio", "link_ratio", "price_ratio")
MOST_TEXT = 200
MOST_AGAINST = 6
_RATES = r"(?:1(?:\.0{1,6})?|0?\.[0-9]{1,6}|0)"
RATES = re.compile(rf"(?:{_RATES}(?:,{_RATES}){{0,31}})?", re.ASCII)
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
_NAME = re.compile(rf"(?:(?:{_PART}/)?{_PART})?", re.ASCII)  # a recording's may lie in a folder


def _whole(default: int, low: int, high: int) -> Any:
    return field(default=default, metadata={"range": (low, high)})


def _number(default: float, low: float, high: float) -> Any:
    return field(default=default, metadata={"range": (low, high)})


def _word(default: str, *among: str) -> Any:
    return field(default=default, metadata={"among": among})


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """A question. Times in milliseconds and factors as ratios, because they are what a person
    types.

    Args:
        page: one of `PAGES`.
        model: target by shipped name, as `dense-13b`, or of a config that this server was given.
        device: device by shipped name.
        other_device: second device, on the hardware page.
        engine: engine whose overheads apply.
        dtype: weight format; empty for the checkpoint's.
        kv_dtype: cache format; empty for 16 bits.
        draft_dtype: weight format of the drafter; empty for 16 bits, or that of its own published
            checkpoint.
        method: slug of the drafting method; empty for the drafters that exist for the model.
        known_by: where its acceptance is known from.
        acceptance_ratio: acceptance rate of one token.
        rates: share of steps in which position 1, 2, .. was accepted, separated by commas.
        draft: draft model, where the method has one.
        trace: shipped recording by name; empty for the first one.
        upload: recording that this session was given, by the name that the server keeps it under;
            no part of a link.
        against: further drafters that compete, as METHOD[:SOURCE] separated by semicolons.
        other_trace: second recording, in the trace lab.
        confidence: shipped confidence trace by name, on the diffusion page; empty for one of the
            policy's cache.
        commit: rule by which a masked decoder commits tokens.
        threshold: the rule's first threshold; 0 for the rule's own.
        block: tokens of a masked block.
        cache: what passes over a masked block read from a cache.
        agreement_ratio: least share of positions with the token that one token a pass writes there.
        prompt: of the confidence trace, from 1.
        measured: measured results by device and date, on the validation page; empty for the first
            ones.
        batch: requests.
        context: cached tokens per request.
        draft_tokens: K; the longest one compared, on the map.
        tree_nodes: draft tokens of a tree.
        depth: draft levels of a tree.
        slo_tpot_ms: longest time per output token; 0 for no limit.
        slo_ttft_ms: longest time to first token; 0 for no limit.
        bandwidth_ratio: of the device's bandwidth.
        peak_ratio: of its peak rates.
        memory_ratio: of its memory.
        link_ratio: of its link to a sibling device.
        price_ratio: of its price.
        tp: devices that share the model.
        rate: requests per second.
        count: requests of a simulation.
        prompt_tokens: mean prompt length.
        output_tokens: mean output length.
        seed: of all draws.
    """

    page: str = _word("run", *PAGES)
    model: str = "llama-3.1-8b"
    device: str = "h100-sxm"
    other_device: str = "a100-sxm-80"
    engine: str = _word("vllm", *ENGINES)
    dtype: str = _word("", *DTYPES)
    kv_dtype: str = _word("", *KV_DTYPES)
    draft_dtype: str = _word("", *DTYPES)
    method: str = ""
    known_by: str = _word("published", *KNOWN_BY)
    acceptance_ratio: float = _number(0.7, 0.0, 1.0)
    rates: str = ""
    draft: str = ""
    trace: str = ""
    upload: str = field(default="", metadata={"session": True})
    against: str = ""
    other_trace: str = ""
    confidence: str = ""
    commit: str = _word("threshold", *COMMIT_RULES)
    threshold: float = _number(0.0, 0.0, 1000.0)
    block: int = _whole(32, 1, MOST_CANVAS_TOKENS)
    cache: str = _word("none", *CACHES)
    agreement_ratio: float = _number(0.95, 0.0, 1.0)
    prompt: int = _whole(1, 1, 100_000)
    measured: str = ""
    batch: int = _whole(1, 1, 1024)
    context: int = _whole(1024, 0, 131072)
    draft_tokens: int = _whole(5, 1, 16)
    tree_nodes: int = _whole(16, 1, 64)
    depth: int = _whole(6, 1, 10)
    slo_tpot_ms: float = _number(0.0, 0.0, 1e5)
    slo_ttft_ms: float = _number(0.0, 0.0, 1e6)
    bandwidth_ratio: float = _number(1.0, 0.25, 4.0)
    peak_ratio: float = _number(1.0, 0.25, 4.0)
    memory_ratio: float = _number(1.0, 0.25, 4.0)
    link_ratio: float = _number(1.0, 0.25, 4.0)
    price_ratio: float = _number(1.0, 0.25, 4.0)
    tp: int = _whole(1, 1, 8)
    rate: float = _number(4.0, 0.01, 10000.0)
    count: int = _whole(100, 1, 2000)
    prompt_tokens: int = _whole(1000, 1, 32768)
    output_tokens: int = _whole(200, 1, 8192)
    seed: int = _whole(0, 0, 2**31 - 1)


FIELDS = {each.name: each for each in fields(State) if not each.metadata.get("session")}
"""What a link says."""


def checked(name: str, text: str) -> str | int | float:
    """The value of a field as a URL writes it.

    Raises:
        InputError: an unknown field, or a value outside what it allows.
    """
    if name not in FIELDS:
        raise InputError("is no part of a dashboard link", key=name[:MOST_TEXT])
    about = FIELDS[name]
    if about.type is str:
        if among := about.metadata.get("among"):
            if text not in among:
                raise InputError(
                    f"must be one of {', '.join(a or 'nothing' for a in among)}",
                    key=name,
                    value=text[:MOST_TEXT],
                )
        elif name == "rates":
            if not RATES.fullmatch(text):
                raise InputError(
                    "must be rates in 0..1 separated by commas", key=name, value=text[:MOST_TEXT]
                )
        elif name == "against":
            for each in against_of(text):
                _require_drafter(each)
        elif not _NAME.fullmatch(text):
            raise InputError("must be a shipped name", key=name, value=text[:MOST_TEXT])
        return text
    low, high = about.metadata["range"]
    try:
        value: int | float = int(text) if about.type is int else float(text)
    except ValueError:
        kind = "a whole number" if about.type is int else "a number"
        raise InputError(f"must be {kind}", key=name, value=text[:MOST_TEXT]) from None
    if not (math.isfinite(value) and low <= value <= high):
        raise InputError(f"must lie in {low:g}..{high:g}", key=name, value=text[:MOST_TEXT])
    return value


def against_of(text: str) -> list[str]:
    """The drafters of a text that separates them by semicolons.

    Raises:
        InputError: more than are compared.
    """
    found = [part.strip() for part in text.split(";") if part.strip()]
    if len(found) > MOST_AGAINST:
        raise InputError(
            f"must be at most {MOST_AGAINST} drafters", key="against", value=len(found)
        )
    return found


def _require_drafter(text: str) -> None:
    """Refuse a drafter that cannot be; of files only shipped recordings may be named.

    Raises:
        InputError: saying why.
    """
    from costmodel.optimizers.drafters.named_drafters import drafter_source

    _, colon, given = text.partition(":")
    if colon and re.fullmatch(r"[A-Za-z].*", given) and not given.startswith("length="):
        _require_known("trace", given)
    if len(text) > MOST_TEXT or (colon and not re.fullmatch(r"[\w.,=@ +-]+", given, re.ASCII)):
        raise InputError("must be METHOD or METHOD:SOURCE", key="against", value=text[:MOST_TEXT])
    try:
        drafter_source(text, model=State().model)
    except InputError as error:
        raise InputError(error.message, key="against", value=text) from None


def from_query(query: Mapping[str, str]) -> tuple[State, list[str]]:
    """The state of a link, and a message for every part of it that was left out because it cannot
    be.

    Names of models, devices, methods and recordings are checked too: a state never holds one that
    does not exist.
    """
    values: dict[str, Any] = {}
    wrong: list[str] = []
    for name, text in list(query.items())[: 4 * len(FIELDS)]:
        try:
            value = checked(name, text)
            _require_known(name, str(value))
            values[name] = value
        except InputError as error:
            wrong.append(str(error))
    return State(**values), wrong


def to_query(state: State) -> dict[str, str]:
    """The query of a state's link: what differs from the defaults."""
    given = asdict(state)
    return {
        name: f"{given[name]:.10g}" if about.type is float else str(given[name])
        for name, about in FIELDS.items()
        if about.default is not MISSING and given[name] != about.default
    }


def address(state: State) -> dict[str, str]:
    """The query of the state's page, which names the page in its path; it always says something."""
    return {
        "model": state.model,
        **{name: text for name, text in to_query(state).items() if name != "page"},
    }


@lru_cache(maxsize=64)
def known_names(name: str) -> Sequence[str] | None:
    """The names that a field may hold; None where it holds no name of a catalogue."""
    from costmodel.architectures.library import model_names
    from hardware_profiles.loader import device_names
    from traces.library import recordings, shipped_confidence

    catalogues: dict[str, Callable[[], Iterable[Any]]] = {
        "model": model_names,
        "draft": model_names,
        "device": device_names,
        "other_device": device_names,
        "method": drafting_methods,
        "trace": recordings,
        "other_trace": recordings,
        "confidence": shipped_confidence,
        "measured": _measured,
    }
    if name not in catalogues:
        return None
    return [each.stem if isinstance(each, Path) else each for each in catalogues[name]()]


def _measured() -> Iterable[str]:
    from app.dashboard.measured import (
        measured_results,
    )  # which loads pyarrow, and one page asks for it

    return measured_results()


def drafting_methods() -> list[str]:
    """Methods that draft and can be priced."""
    from costmodel.method_library import load_method, method_names

    known = {slug: load_method(slug) for slug in method_names()}
    return [slug for slug, each in known.items() if each.drafts and not each.refusal]


@lru_cache(maxsize=1)
def sold_devices() -> Sequence[str]:
    """Devices without those that are another one measured with other kernels
    (`a100-sxm-80--flashinfer`).
    """
    from hardware_profiles.loader import device_names

    names = device_names()
    return [
        name
        for name in names
        if name.partition("--")[0] == name or name.partition("--")[0] not in names
    ]


def _require_known(name: str, value: str) -> None:
    from app.dashboard.held import is_known_model
    from hardware_profiles.errors import UnknownNameError

    known = known_names(name)
    if name == "model" and is_known_model(value):
        return
    empty = FIELDS[name].default == "" and value == ""
    if known is not None and not empty and value not in known:
        raise UnknownNameError(name.replace("_", " "), value, list(known), key=name)


def overrides(state: State) -> tuple[str, ...]:
    """`--set` values of the device with the state's factors applied; empty where all are 1."""
    from hardware_profiles.loader import load_device

    if all(getattr(state, name) == 1.0 for name in FACTORS):
        return ()
    device = load_device(state.device)
    scaled: list[tuple[str, float]] = []
    for ratio, key in (
        (state.bandwidth_ratio, "bandwidth_bytes_per_s"),
        (state.memory_ratio, "memory_bytes"),
        (state.link_ratio, "link_bytes_per_s"),
        (state.price_ratio, "price_usd_per_hour"),
    ):
        if ratio != 1.0 and (now := getattr(device, key)):
            scaled.append((key, now * ratio))
    if state.peak_ratio != 1.0:
        scaled += [
            (f"peak_flops_per_s.{dtype}", peak * state.peak_ratio)
            for dtype, peak in device.peak_flops_per_s.items()
        ]
    return tuple(f"device.{key}={value:.8g}" for key, value in scaled)


def command(words: Sequence[str], options: Mapping[str, object]) -> str:
    """A command line: the verb, then every option whose value is neither None nor empty."""
    parts = ["rooftree", *words]
    for name, value in options.items():
        for each in value if isinstance(value, tuple) else (value,):
            if each not in (None, "", False):
                parts += [f"--{name}"] if each is True else [f"--{name}", str(each)]
    return shlex.join(parts)


def with_values(state: State, values: Mapping[str, Any]) -> State:
    """The state with other values of some fields; the caller has checked them."""
    return replace(state, **values)


def milliseconds(value: float) -> float | None:
    """A limit in milliseconds as seconds; None for 0, which stands for no limit."""
    return value * MILLI if value > 0 else None
