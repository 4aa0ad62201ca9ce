"""Options and their parsing, shared by the verbs; imports nothing heavy."""

import math
import re
from pathlib import Path
from typing import Annotated

import typer

from app.cli import completion

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def _folder(out: Path | None) -> Path | None:
    """The folder, unless it can never be made."""
    from app.cli.output import require_folder

    if out is not None:
        require_folder(out)
    return out


Out = Annotated[
    Path | None,
    typer.Option("--out", help="Folder for files; created where it is missing.", callback=_folder),
]


def _file(csv: Path | None) -> Path | None:
    """The file, unless it cannot be written."""
    from app.cli.output import require_file

    if csv is not None:
        require_file(csv, "--csv")
    return csv


Csv = Annotated[
    Path | None,
    typer.Option(
        "--csv",
        help="File for the table's rows as comma-separated values, plain numbers.",
        callback=_file,
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of every random draw.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", is_eager=True, help="No progress and no tables, only errors.")
]
AsFamily = Annotated[
    str | None,
    typer.Option(
        "--as", is_eager=True, help="Read the model's config as of this family, such as llama."
    ),
]


def read_model(running: typer.Context, model: str | None) -> str | None:
    """The model with the family that `--as` names, after a line on how an id that is no shipped
    name is understood.
    """
    from app.cli.output import remark
    from costmodel.architectures.library import how_read

    if model and (family := running.params.get("as_family")):
        model = ",".join(f"{name.strip()} as {family}" for name in model.split(","))
    for name in model.split(",") if model and not running.params.get("quiet") else ():
        if words := how_read(name.strip()):
            remark(words)
    return model


Model = Annotated[
    str,
    typer.Option(
        "--model",
        autocompletion=completion.models,
        callback=read_model,
        help=(
            "Shipped name (`rooftree models`), Hugging Face id or path of a config.json or .gguf;"
            " several by commas."
        ),
    ),
]
Device = Annotated[
    str,
    typer.Option(
        "--device",
        autocompletion=completion.devices,
        help="Shipped name (`rooftree devices`) or path of a TOML file; several by commas.",
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override a device's number: device.KEY=VALUE in SI units."),
]
MethodOrTraces = Annotated[
    str,
    typer.Option(
        "--method",
        autocompletion=completion.methods,
        help="Method slug (`rooftree methods`); default: the trace's, else speculative decoding.",
    ),
]
Draft = Annotated[
    str | None,
    typer.Option("--draft", help="Draft model: shipped name or path of a config.json or .gguf."),
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        autocompletion=completion.engines,
        help=(
            "Engine whose overheads apply: vllm, sglang, tensorrt-llm, llama.cpp, transformers,"
            " none for passes alone, or an engine file (.toml) that `calibrate --server` wrote;"
            " several by commas."
        ),
    ),
]
TensorParallel = Annotated[int, typer.Option("--tp", help="Devices that share the model.")]
Pipeline = Annotated[int, typer.Option("--pp", help="Pipeline stages of consecutive layers.")]
Expert = Annotated[
    int, typer.Option("--ep", help="Devices that share the routed experts, each whole.")
]
Data = Annotated[
    int, typer.Option("--dp", help="Copies of the other layers, each with its own requests.")
]
ContextGroup = Annotated[
    int, typer.Option("--cp", help="Devices that share the tokens of every request.")
]
Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        help=(
            "Weight format or recipe, in any case: bf16, fp16, fp32, fp8, fp8-block, int8, int4,"
            " fp4, awq, gptq, w4a16, w8a8, w8a16, nvfp4, mxfp4; in groups: int4-g128; of GGUF:"
            " q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k and mixes such as q4_k_m;"
            " part by part: bf16/experts=int4-g32. Default: that of the published checkpoint."
        ),
    ),
]
DraftDtype = Annotated[
    str | None,
    typer.Option(
        "--draft-dtype",
        help=(
            "Weight format of the draft model or head, as --dtype. Default: 16 bits, or that of the"
            " drafter's own published checkpoint."
        ),
    ),
]
KvDtype = Annotated[
    str | None, typer.Option("--kv-dtype", help="KV-cache format: bf16, fp16, fp8, int8, fp32.")
]
Batch = Annotated[str, typer.Option("--batch", help="Batch sizes, comma-separated.")]
Context = Annotated[
    str, typer.Option("--context", help="Cached tokens per request, comma-separated.")
]
DraftTokens = Annotated[
    str | None, typer.Option("--draft-tokens", help="Draft tokens K, comma-separated.")
]
DraftShapes = Annotated[
    str | None,
    typer.Option(
        "--shape",
        autocompletion=completion.shapes,
        help=(
            "What a step drafts, as every table prints it; several by commas: off, chain:5,"
            " chains:2x4, tree:16 (built from the recording; tree:FILE reads one), dynamic:60x6"
            " (draft tokens x depth, chosen anew at every step; then :width=4, :beam=4,"
            " :least=0.02), prompted:48, own (the method's). +probability:0.6 ends drafts early,"
            " as --stop does."
        ),
    ),
]
StopRule = Annotated[
    str,
    typer.Option(
        "--stop",
        help=(
            "When a draft ends before K: probability:0.6, product:0.5,least=1,most=8, ema or"
            " goodput; a dynamic tree: gain:0.1."
        ),
    ),
]
MatchRate = Annotated[
    float | None,
    typer.Option(
        "--match-rate",
        help="Share of steps in which an n-gram drafter proposes, where a trace does not tell.",
    ),
]
Acceptance = Annotated[
    str | None,
    typer.Option(
        "--acceptance",
        help=(
            "Instead of a trace: one rate of a token given those before it (0.72), or the share of"
            " steps in which each position was accepted (0.78,0.61,0.48), as engines print it."
        ),
    ),
]
TokensPerStep = Annotated[
    float | None,
    typer.Option(
        "--tokens-per-step",
        help=(
            "Or the tokens that a step emits, the bonus token counted, at the longest of"
            " --draft-tokens; without K, for the method's own shape."
        ),
    ),
]
Drafters = Annotated[
    list[str] | None,
    typer.Option(
        "--drafter",
        help=(
            "METHOD[:SOURCE], SOURCE being a rate, rates by position, length=2.4 (tokens per step;"
            " length=2.4@3 at K=3), or a trace; without SOURCE, the published figure that suits the"
            " model best."
        ),
    ),
]
Commit = Annotated[
    list[str] | None,
    typer.Option(
        "--commit",
        help=(
            "How a method that refines masked blocks commits tokens: RULE[:VALUES], such as"
            " threshold:0.8 or neighbours:confidence=0.9,tokens=4; `optimize` takes several values"
            " (threshold:0.7,0.8,0.9) and rules."
        ),
    ),
]
Block = Annotated[
    str | None,
    typer.Option("--block", help="Tokens of a masked block; several by commas for `optimize`."),
]
Cache = Annotated[
    str | None,
    typer.Option(
        "--cache",
        help=(
            "What later passes of a masked block read from a cache: none, prefix (all before the"
            " block) or dual (all around it); several by commas for `optimize`."
        ),
    ),
]
Canvas = Annotated[
    int | None,
    typer.Option(
        "--canvas", min=1, help="Tokens behind the prompt that are refined; default: as recorded."
    ),
]
DraftPasses = Annotated[
    int | None,
    typer.Option(
        "--draft-passes",
        min=1,
        help=(
            "Passes per step of a drafter of your own: the first whose acceptance is stated or"
            " recorded."
        ),
    ),
]
DraftBytes = Annotated[
    float | None, typer.Option("--draft-bytes", help="Bytes that one of its passes reads.")
]
DraftName = Annotated[
    str | None,
    typer.Option(
        "--draft-name", help="What it is called; default: own-drafter. --draft is its checkpoint."
    ),
]
ExitLayer = Annotated[
    int | None, typer.Option("--exit-layer", help="Layers that an early-exit drafter runs.")
]
Trace = Annotated[
    Path | None,
    typer.Option(
        "--trace", help="Acceptance trace: a recording to replay, or an engine's counters."
    ),
]
TreeFile = Annotated[
    Path | None, typer.Option("--tree", help="Tree JSON instead of --draft-tokens.")
]
Fidelity = Annotated[str, typer.Option("--fidelity", help="measured, calibrated or datasheet.")]
SplitVerify = Annotated[
    bool | None,
    typer.Option(
        "--split-verify/--no-split-verify", help="Attention splits the cache in verify passes."
    ),
]
SharedPrefix = Annotated[
    int,
    typer.Option(
        "--shared-prefix",
        min=0,
        help="Cached tokens that all requests begin with, read once for all.",
    ),
]
EngineLog = Annotated[
    Path | None,
    typer.Option(
        "--engine-log",
        help=(
            "Log (or JSON) of the running engine: the cache that it said it has, in place of the"
            " one that follows."
        ),
    ),
]
HostWeights = Annotated[
    float,
    typer.Option(
        "--host-weights", min=0.0, max=1.0, help="Share of the layers' weights kept in host memory."
    ),
]

MOST_DRAFT_TOKENS = 4095
MOST = 100_000_000
MOST_BYTES = 1e15


def whole_numbers(text: str, option: str, *, least: int, most: int = MOST) -> list[int]:
    """Comma-separated whole numbers, sorted, without repeats.

    Raises:
        InputError: something else, or a number outside `least`..`most`.
    """
    from hardware_profiles.errors import InputError

    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch("-?[0-9]{1,18}", part) for part in parts):
        raise InputError("must be whole numbers separated by commas", key=option, value=text)
    numbers = sorted({int(part) for part in parts})
    if numbers[0] < least or numbers[-1] > most:
        raise InputError(f"must lie in {least}..{most}", key=option, value=text)
    return numbers


def method_slug(name: str, option: str) -> str:
    """The slug of a method named by slug or by drafter kind; empty for an empty name.

    Raises:
        UnknownNameError: there is no such method.
        InputError: one that cannot be priced, with the reason of its entry.
    """
    from costmodel.answers.settings import method_of
    from costmodel.method_library import load_method, method_names, require_priced
    from hardware_profiles.errors import InputError, UnknownNameError

    if not name:
        return ""
    try:
        slug = method_of(name)
    except InputError:
        raise UnknownNameError("method", name, method_names(), key=option) from None
    require_priced(load_method(slug))
    return slug


def ratio(value: float | None, option: str) -> float | None:
    """A share in [0, 1], or None.

    Raises:
        InputError: outside, or not a number.
    """
    from hardware_profiles.errors import InputError

    if value is not None and not (math.isfinite(value) and 0.0 <= value <= 1.0):
        raise InputError("must lie in [0, 1]", key=option, value=value)
    return value


def milliseconds(value: float | None, option: str) -> float | None:
    """A positive number of milliseconds as seconds, or None.

    Raises:
        InputError: not positive and finite.
    """
    from hardware_profiles.errors import InputError
    from hardware_profiles.units import MILLI

    if value is None:
        return None
    if not (math.isfinite(value) and value > 0.0):
        raise InputError("must be a positive number of milliseconds", key=option, value=value)
    return value * MILLI


def byte_count(value: float | None, option: str) -> float | None:
    """A positive number of bytes, or None.

    Raises:
        InputError: not positive, or more than any memory holds.
    """
    from hardware_profiles.errors import InputError

    if value is not None and not 0.0 < value <= MOST_BYTES:
        raise InputError(
            f"must be a number of bytes above 0 and at most {MOST_BYTES:.0e}",
            key=option,
            value=value,
        )
    return value


RequestFile = Annotated[
    Path | None,
    typer.Option(
        "--requests", help="Recorded requests: request trace, or a file that `traces import` knows."
    ),
]
Rate = Annotated[
    float | None, typer.Option("--rate", help="Mean requests per second, Poisson arrivals.")
]
Users = Annotated[
    int | None, typer.Option("--users", help="Closed loop: users, each with one request.")
]
Count = Annotated[int | None, typer.Option("--count", help="Requests; default: all of the file.")]
PromptTokens = Annotated[
    str | None,
    typer.Option(
        "--prompt-tokens",
        help="Without a file: N, uniform:LOW:HIGH, exponential:MEAN or lognormal:MEAN:VARIATION.",
    ),
]
OutputTokens = Annotated[
    str | None, typer.Option("--output-tokens", help="Tokens to generate, in the same forms.")
]
