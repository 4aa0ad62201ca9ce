"""What does a dashboard link say, and which command line gives the same answer?

A `State` is the whole question of a page. It is read from a URL's query with every value checked,
and written back with what differs from the defaults only. Leaves out answering (`answers_*`) and
widgets (`controls.widgets`).
"""

import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl

from app.dashboard.device_numbers import DEVICE_NUMBERS
from app.dashboard.former_links import by_field
from app.dashboard.held import is_held_device, is_known_model, shown_device
from app.questions import fields as table
from app.questions.field import (
    Control,
    Field,
    Group,
    Question,
    fields_of,
    row_of,
    stated_words,
)
from app.questions.values import Bytes
from costmodel.architectures.library import model_names
from costmodel.engine_library import engine_names
from costmodel.method_library import is_method_file, load_method, method_names
from costmodel.optimizers.drafters.named_drafters import drafter_source
from costmodel.passes.formats import recipe_names
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.loader import device_names
from hardware_profiles.units import MILLI
from traces.kinds.refine_policy import CACHES, COMMIT_RULES
from traces.library import recordings, shipped_confidence

PAGES = ("run", "map", "tree", "trace", "diffusion", "hardware", "pareto", "serving", "validation")
LOADED_PAGES = ("hardware", "serving")
"""Pages that ask about requests of stated lengths, whose whole time can be limited."""
KNOWN_BY = ("published", "rate", "rates", "recording", "upload")
DTYPES = ("", *recipe_names())
CHOICES: Mapping[str, Sequence[str]] = {
    "page": PAGES,
    "engine": sorted(engine_names(), key=lambda name: (name != "vllm", name == "none", name)),
    "dtype": DTYPES,
    "kv_dtype": ("", "bf16", "fp16", "fp8", "int8", "fp32"),
    "draft_dtype": DTYPES,
    "known_by": KNOWN_BY,
    "commit": ("", *COMMIT_RULES),
    "cache": ("", *CACHES),
}
"""What a field may hold that holds one of few words."""
USUAL_RATE = 0.7
MOST_TEXT = 200
MOST_PINNED = 2000
MOST_RIVALS = 6
_RATES = r"(?:1(?:\.0{1,6})?|0?\.[0-9]{1,6}|0)"
RATES = re.compile(rf"(?:{_RATES}(?:,{_RATES}){{0,31}})?", re.ASCII)
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
_NAME = re.compile(rf"(?:(?:{_PART}/)?{_PART})?", re.ASCII)  # a recording's may lie in a folder


def _number(name: str, label: str, help: str) -> Field:
    """A row for a number of the device, which becomes a value of `--set`."""
    control = Control(label, help, most=DEVICE_NUMBERS[name].most, empty="as sold")
    return Field(f"{label}; 0: as sold.", Group.HARDWARE, control=control)


def _peak(dtype: str) -> Field:
    return _number(
        f"{dtype}_tflop_per_s",
        f"Peak rate in {dtype} (TFLOP/s)",
        "Dense arithmetic, which bounds large batches; a multiply-add counts two.",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """A question of a page, whose attributes are fields: of the table where a verb has the field
    too, of its own otherwise. Each holds one value; where the command line may leave a value out,
    it is empty or 0 here.

    Device names, methods and recordings are shipped ones. What `Control` says of a field is its
    widget; the field's name is its key in a link.
    """

    page: Annotated[str, Field("The page.", Group.OUTPUT)] = "run"
    model: Annotated[str, row_of(table.Model)] = "llama-3.1-8b"
    device: Annotated[str, row_of(table.Device)] = "h100-sxm"
    other_device: Annotated[
        str,
        Field(
            "Second device, on the hardware page.",
            Group.HARDWARE,
            control=Control("Second device", "Shown beside the first, as it is sold."),
        ),
    ] = "a100-sxm-80"
    engine: Annotated[str, row_of(table.Engine)] = "vllm"
    dtype: Annotated[str, row_of(table.Dtype)] = ""
    kv_dtype: Annotated[str, row_of(table.KvDtype)] = ""
    draft_dtype: Annotated[str, row_of(table.DraftDtype)] = ""
    method: Annotated[str, row_of(table.MethodOrTraces)] = ""
    known_by: Annotated[
        str,
        Field(
            "Where the drafter's acceptance is known from.",
            Group.DRAFTING,
            control=Control(
                "Its acceptance",
                (
                    "How many drafts are kept decides the gain. Best is a recording or log of your"
                    " own traffic; engines print rates by position."
                ),
            ),
        ),
    ] = "published"
    acceptance: Annotated[str, row_of(table.Acceptance)] = ""
    draft: Annotated[str, row_of(table.Draft)] = ""
    draft_name: Annotated[str, row_of(table.DraftName)] = ""
    draft_passes: Annotated[int, row_of(table.DraftPasses)] = 1
    draft_bytes: Annotated[str, row_of(table.DraftBytes)] = ""
    trace: Annotated[str, row_of(table.Trace)] = ""
    upload: Annotated[
        str,
        Field(
            "Recording that this session was given, by the name that the server keeps it under.",
            Group.DRAFTING,
        ),
    ] = ""
    rivals: Annotated[
        str,
        Field(
            "Further drafters that compete, as METHOD[:SOURCE] separated by semicolons.",
            Group.DRAFTING,
            control=Control(
                "Compared with",
                (
                    "Further drafters, which compete with the first. Pick one, or type"
                    " METHOD:SOURCE, where SOURCE is a rate, rates by position, `length=2.4@3`"
                    " (tokens per step at K = 3) or a recording."
                ),
            ),
        ),
    ] = ""
    other_trace: Annotated[
        str,
        Field(
            "Second recording, in the trace lab.",
            Group.DRAFTING,
            control=Control("Second recording", "Drawn beside the first.", empty="none"),
        ),
    ] = ""
    confidence: Annotated[
        str,
        Field(
            "Shipped confidence trace by name; empty for one of the cache.",
            Group.MASKED,
            control=Control(
                "Confidence recording",
                "What a real masked model was sure of, pass by pass.",
                empty="that of the cache",
            ),
        ),
    ] = ""
    commit: Annotated[str, row_of(table.Commit)] = ""
    threshold: Annotated[
        float,
        Field(
            "The commit rule's first threshold; 0 for the recommended one.",
            Group.MASKED,
            control=Control(
                "Threshold of the rule",
                "Lower commits more tokens a pass, with more mistakes.",
                most=1000.0,
                empty="recommended",
            ),
        ),
    ] = 0.0
    block: Annotated[int, row_of(table.Block)] = 0
    cache: Annotated[str, row_of(table.Cache)] = ""
    agreement_ratio: Annotated[
        float,
        Field(
            "Least share of positions with the token that one token a pass writes there.",
            Group.LIMITS,
            control=Control(
                "Least agreement with one token a pass",
                "Share of positions with the token that one token a pass writes there.",
                most=1.0,
                step=0.01,
            ),
        ),
    ] = 0.95
    recorded_prompt: Annotated[
        int,
        Field(
            "Prompt of the confidence trace, from 1.",
            Group.MASKED,
            control=Control(
                "Prompt of the recording",
                "Which of the recorded prompts is drawn.",
                least=1,
                most=100_000,
            ),
        ),
    ] = 1
    measured: Annotated[
        str,
        Field(
            "Measured results by device and date; empty for the first ones.",
            Group.HARDWARE,
            control=Control(
                "Measured results",
                "A machine and the day on which it was measured.",
                empty="first",
            ),
        ),
    ] = ""
    batch: Annotated[int, row_of(table.Batch)] = 1
    context: Annotated[int, row_of(table.Context)] = 1024
    draft_tokens: Annotated[int, row_of(table.DraftTokens)] = 0
    tree_nodes: Annotated[
        int,
        Field(
            "Draft tokens of a tree.",
            Group.DRAFTING,
            control=Control(
                "Draft tokens of the tree",
                "Drafts of a tree are verified together; a larger one keeps more and costs more.",
                least=1,
                most=64,
            ),
        ),
    ] = 16
    depth: Annotated[
        int,
        Field(
            "Draft levels of a tree.",
            Group.DRAFTING,
            control=Control(
                "Draft levels of the tree",
                "How many tokens deep the tree drafts, which is the most that a step can keep.",
                least=1,
                most=10,
            ),
        ),
    ] = 6
    slo_tpot: Annotated[float, row_of(table.SloTpot)] = 0.0
    slo_ttft: Annotated[float, row_of(table.SloTtft)] = 0.0
    slo_e2e: Annotated[float, row_of(table.SloE2e)] = 0.0
    memory_gb: Annotated[
        float, _number("memory_gb", "Memory (GB)", "Capacity, which bounds batch and context.")
    ] = 0.0
    bandwidth_gb_per_s: Annotated[
        float,
        _number(
            "bandwidth_gb_per_s",
            "Memory bandwidth (GB/s)",
            "Rate of the device's own memory, which bounds small batches.",
        ),
    ] = 0.0
    fp32_tflop_per_s: Annotated[float, _peak("fp32")] = 0.0
    bf16_tflop_per_s: Annotated[float, _peak("bf16")] = 0.0
    fp16_tflop_per_s: Annotated[float, _peak("fp16")] = 0.0
    fp8_tflop_per_s: Annotated[float, _peak("fp8")] = 0.0
    int8_tflop_per_s: Annotated[float, _peak("int8")] = 0.0
    fp4_tflop_per_s: Annotated[float, _peak("fp4")] = 0.0
    link_gb_per_s: Annotated[
        float,
        _number(
            "link_gb_per_s",
            "Link (GB/s)",
            "Rate to another device that shares the model, per direction.",
        ),
    ] = 0.0
    price_usd_per_hour: Annotated[
        float, _number("price_usd_per_hour", "Price ($ per hour)", "Of one device.")
    ] = 0.0
    tp: Annotated[int, row_of(table.TensorParallel)] = 1
    rate: Annotated[float, row_of(table.Rate)] = 4.0
    count: Annotated[int, row_of(table.Count)] = 100
    prompt_tokens: Annotated[int, row_of(table.PromptTokens)] = 1000
    output_tokens: Annotated[int, row_of(table.OutputTokens)] = 200
    seed: Annotated[int, row_of(table.Seed)] = 0
    pinned: Annotated[
        str,
        Field(
            "Query of another question, whose answer stands beside.",
            Group.OUTPUT,
            control=Control("Pinned answer", "What every number is compared with."),
        ),
    ] = ""


FIELDS = {field.name: field for field in fields_of(State) if field.name != "upload"}
"""What a link says: all but what a session alone has."""
LABELS = {
    name: field.row.control.label for name, field in FIELDS.items() if field.row.control is not None
}


def control_of(name: str) -> Control:
    """What a page says of a field that it asks for.

    Raises:
        KeyError: no page asks for it.
    """
    if (control := FIELDS[name].row.control) is None:
        raise KeyError(name)
    return control


def checked(name: str, text: str) -> str | int | float:
    """The value of a field as a URL writes it.

    Raises:
        InputError: an unknown field, or a value outside what it allows.
    """
    if name not in FIELDS:
        raise InputError("is no part of a dashboard link", key=name[:MOST_TEXT])
    kind = FIELDS[name].type
    if kind is str:
        return _checked_text(name, text)
    try:
        value: int | float = kind(text)
    except ValueError:
        rule = "a whole number" if kind is int else "a number"
        raise InputError(f"must be {rule}", key=name, value=text[:MOST_TEXT]) from None
    control = control_of(name)
    if not (math.isfinite(value) and control.least <= value <= control.most):
        raise InputError(
            f"must lie in {control.least:g}..{control.most:g}", key=name, value=text[:MOST_TEXT]
        )
    return value


def _checked_text(name: str, text: str) -> str:
    rule = ""
    if name in CHOICES:
        if text not in CHOICES[name]:
            rule = f"must be one of {', '.join(choice or 'nothing' for choice in CHOICES[name])}"
    elif name == "acceptance":
        if not RATES.fullmatch(text):
            rule = "must be rates in 0..1 separated by commas"
    elif name == "draft_bytes":
        if text:
            _require_bytes(name, text)
    elif name == "rivals":
        for drafter in rivals_of(text):
            _require_drafter(drafter)
    elif name == "pinned":
        if len(text) > MOST_PINNED or from_query(dict(parse_qsl(text)))[1] or "pinned=" in text:
            rule = "must be the query of a link"
    elif not _NAME.fullmatch(text):
        rule = (
            "must be letters and digits, with dots, dashes or underscores between"
            if name == "draft_name"
            else "must be a shipped name"
        )
    if rule:
        raise InputError(rule, key=name, value=text[:MOST_TEXT])
    return text


def _require_bytes(name: str, text: str) -> None:
    try:
        Bytes().read(text)
    except InputError as error:
        raise InputError(error.message, key=name, value=text[:MOST_TEXT]) from None


def rivals_of(text: str) -> list[str]:
    """The drafters of a text that separates them by semicolons.

    Raises:
        InputError: more than are compared.
    """
    drafters = [part.strip() for part in text.split(";") if part.strip()]
    if len(drafters) > MOST_RIVALS:
        raise InputError(
            f"must be at most {MOST_RIVALS} drafters", key="rivals", value=len(drafters)
        )
    return drafters


def rate_of(state: State) -> float:
    """The acceptance rate of one token, where the drafter is known by one."""
    return float(state.acceptance.partition(",")[0] or USUAL_RATE)


def _require_drafter(text: str) -> None:
    """Refuse a drafter that cannot be; of files only shipped recordings may be named.

    Raises:
        InputError: saying why.
    """
    method, colon, source = text.partition(":")
    if is_method_file(method):
        raise InputError("must name a method, not a file", key="rivals", value=text[:MOST_TEXT])
    if colon and re.fullmatch(r"[A-Za-z].*", source) and not source.startswith("length="):
        _require_known("trace", source)
    if len(text) > MOST_TEXT or (colon and not re.fullmatch(r"[\w.,=@ +-]+", source, re.ASCII)):
        raise InputError("must be METHOD or METHOD:SOURCE", key="rivals", value=text[:MOST_TEXT])
    try:
        drafter_source(text, model=State().model)
    except InputError as error:
        raise InputError(error.message, key="rivals", value=text) from None


def from_query(query: Mapping[str, str]) -> tuple[State, list[str]]:
    """The state of a link, and a message for every part of it that was left out because it cannot
    be.

    Names of models, devices, methods and recordings are checked too: a state never holds one that
    does not exist.
    """
    values, wrong = query_values(query)
    return with_values(State(), values), wrong


def query_values(query: Mapping[str, str]) -> tuple[dict[str, str | int | float], list[str]]:
    """The values of fields that a query states, and a message for every part that cannot be."""
    values: dict[str, str | int | float] = {}
    wrong: list[str] = []
    for name, text in by_field(query, device=_device_of(query), most=4 * len(FIELDS)):
        try:
            value = checked(name, text)
            _require_known(name, str(value))
            values[name] = value
        except InputError as error:
            wrong.append(str(error))
    return values, wrong


def _device_of(query: Mapping[str, str]) -> str:
    """The device that a link asks about, where it can be."""
    device = query.get("device", "")
    known = device in (known_names("device") or ()) or is_held_device(device)
    return device if known else State().device


def to_query(state: State) -> dict[str, str]:
    """The query of a state's link: what differs from the defaults."""
    return {
        name: f"{value:.10g}" if isinstance(value, float) else str(value)
        for name, field in FIELDS.items()
        if (value := getattr(state, name)) != field.default
    }


def address(state: State) -> dict[str, str]:
    """The query of the state's page, which names the page in its path; it always says something."""
    return {
        "model": state.model,
        **{name: text for name, text in to_query(state).items() if name != "page"},
    }


def known_names(name: str) -> Sequence[str] | None:
    """The names that a field may hold; None where it holds no name of a catalogue."""
    # methods that are read from files join the others while a server runs
    return drafting_methods() if name == "method" else _listed_names(name)


@lru_cache(maxsize=64)
def _listed_names(name: str) -> Sequence[str] | None:
    catalogues: Mapping[str, Callable[[], Iterable[str | Path]]] = {
        "model": model_names,
        "draft": model_names,
        "device": device_names,
        "other_device": device_names,
        "trace": recordings,
        "other_trace": recordings,
        "confidence": shipped_confidence,
        "measured": _measured,
    }
    if name not in catalogues:
        return None
    return [entry.stem if isinstance(entry, Path) else entry for entry in catalogues[name]()]


def _measured() -> Iterable[str]:
    from app.dashboard.measured import measured_results  # loads pyarrow, and one page asks for it

    return measured_results()


def drafting_methods() -> list[str]:
    """Methods that draft and can be priced."""
    methods = {slug: load_method(slug) for slug in method_names()}
    return [slug for slug, method in methods.items() if method.drafts and not method.refusal]


@lru_cache(maxsize=1)
def sold_devices() -> Sequence[str]:
    """Devices without those that are another one measured with other kernels
    (`a100-sxm-80--flashinfer`).
    """
    names = device_names()
    return [
        name
        for name in names
        if name.partition("--")[0] == name or name.partition("--")[0] not in names
    ]


def _require_known(name: str, value: str) -> None:
    names = known_names(name)
    if (name == "model" and is_known_model(value)) or (name == "device" and is_held_device(value)):
        return
    empty = FIELDS[name].default == "" and value == ""
    if names is not None and not empty and value not in names:
        error = UnknownNameError(name.replace("_", " "), value, list(names), key=name)
        if name == "method":
            error.message += (
                "; a server learns one of your own by `rooftree dashboard --method FILE`"
            )
        raise error


def as_sold(state: State) -> State:
    """The state with the device as it is sold."""
    return with_values(state, dict.fromkeys(DEVICE_NUMBERS, 0.0))


def is_modified(state: State) -> bool:
    """Whether a number of the device is another one than as sold."""
    return any(getattr(state, name) for name in DEVICE_NUMBERS)


def device_words(state: State) -> str:
    """What pages call the device of a state."""
    return f"{shown_device(state.device)}{', modified' * is_modified(state)}"


def overrides(state: State) -> tuple[str, ...]:
    """`--set` values of the device's numbers that the state changes, in SI; empty where it changes
    none.
    """
    return tuple(
        f"device.{number.key}={value * number.factor:.10g}"
        for name, number in DEVICE_NUMBERS.items()
        if (value := getattr(state, name))
    )


def command(words: Sequence[str], options: Mapping[str, object]) -> str:
    """A command line: the verb, then every option whose value is neither None nor empty."""
    parts = ["rooftree", *words]
    for name, value in options.items():
        for word in value if isinstance(value, tuple) else (value,):
            if word not in (None, "", False):
                parts += [f"--{name}"] if word is True else [f"--{name}", str(word)]
    return shlex.join(parts)


def asked_line(verb: Callable[..., Question], values: Mapping[str, object]) -> str:
    """The command line that asks a verb.

    Args:
        verb: the question that it answers.
        values: by keyword of its fields, in the order of the line; what is empty is left out.
    """
    named = {field.name: field for field in fields_of(verb)}
    words = re.sub("(?<=[a-z])(?=[A-Z])", " ", verb.__name__.removesuffix("Question"))
    arguments: list[str] = []
    options: dict[str, object] = {}
    for name, value in values.items():
        if named[name].row.argument:
            arguments += stated_words(value)
        else:
            options[named[name].option.removeprefix("--")] = value
    return command([*words.lower().split(), *arguments], options)


def with_values(state: State, values: Mapping[str, str | int | float]) -> State:
    """The state with other values of some fields; the caller has checked them."""
    changes: Mapping[str, Any] = values  # of each field's own type
    return replace(state, **changes)


def milliseconds(value: float) -> float | None:
    """A limit in milliseconds as seconds; None for 0, which stands for no limit."""
    return value * MILLI if value > 0 else None
