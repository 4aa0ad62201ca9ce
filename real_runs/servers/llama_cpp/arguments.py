"""What do the flags of an exported `llama-server` command line set in the embedded server?

The server that the package `xllamacpp` embeds takes an object of parameters, not a command line.
Its own parser is not part of the package's interface, so the flags that are exported, and those
that a measurement adds, are read here. Leaves out every other flag, and models from a hub: nothing
is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from hardware_profiles.errors import InputError, UnknownNameError

_Read = Callable[[str], object]
_THREADS = ("cpuparams.n_threads", "speculative.draft.cpuparams.n_threads")
_BATCH_THREADS = ("cpuparams_batch.n_threads", "speculative.draft.cpuparams_batch.n_threads")
_LOOKUPS = ("ngram_simple", "ngram_map_k", "ngram_map_k4v")


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _rates(text: str) -> list[float]:
    return [float(rate) for rate in text.split(",")]


def _folder(text: str) -> str:
    return text.rstrip("/") + "/"


# the attributes that a flag with a value sets, and how its value is read
VALUES: Mapping[str, tuple[tuple[str, ...], _Read]] = {
    "--model": (("model.path",), str),
    "--host": (("hostnames",), lambda text: [text]),
    "--port": (("port",), int),
    "--ctx-size": (("n_ctx",), int),
    "--parallel": (("n_parallel",), int),
    "--batch-size": (("n_batch",), int),
    "--ubatch-size": (("n_ubatch",), int),
    "--cache-type-k": (("cache_type_k",), str),
    "--cache-type-v": (("cache_type_v",), str),
    "--cache-ram": (("cache_ram_mib",), int),
    "--slot-save-path": (("slot_save_path",), _folder),
    "--threads": (_THREADS + _BATCH_THREADS, int),
    "--threads-batch": (_BATCH_THREADS, int),
    "--spec-type": (("speculative.types",), _names),
    "--spec-synth-rates": (("speculative.synth_rates",), _rates),
    **dict.fromkeys(
        ("--spec-draft-model", "--model-draft"), (("speculative.draft.mparams.path",), str)
    ),
    **dict.fromkeys(("--spec-draft-n-max", "--draft-max"), (("speculative.draft.n_max",), int)),
    **dict.fromkeys(("--spec-draft-n-min", "--draft-min"), (("speculative.draft.n_min",), int)),
    **dict.fromkeys(("--spec-draft-p-min", "--draft-p-min"), (("speculative.draft.p_min",), float)),
    **{
        f"--spec-{name.replace('_', '-')}-{flag}": ((f"speculative.{name}.{attribute}",), int)
        for name in _LOOKUPS
        for flag, attribute in (
            ("size-n", "size_n"),
            ("size-m", "size_m"),
            ("min-hits", "min_hits"),
        )
    },
    # builds before the renaming had one set of them
    **{
        f"--spec-ngram-{flag}": (tuple(f"speculative.{name}.{attribute}" for name in _LOOKUPS), int)
        for flag, attribute in (
            ("size-n", "size_n"),
            ("size-m", "size_m"),
            ("min-hits", "min_hits"),
        )
    },
    **{
        f"--spec-ngram-mod-{flag}": ((f"speculative.ngram_mod.{attribute}",), int)
        for flag, attribute in (("n-match", "n_match"), ("n-max", "n_max"), ("n-min", "n_min"))
    },
}
# the attribute that a flag without a value sets
SWITCHES: Mapping[str, tuple[str, bool]] = {
    "--metrics": ("endpoint_metrics", True),
    "--slots": ("endpoint_slots", True),
    "--no-slots": ("endpoint_slots", False),
    "--no-warmup": ("warmup", False),
    "--cache-prompt": ("cache_prompt", True),
    "--no-cache-prompt": ("cache_prompt", False),
    "--kv-unified": ("kv_unified", True),
    "--no-kv-unified": ("kv_unified", False),
    "--offline": ("offline", True),
}
HUB = ("--hf-repo", "--hf-repo-draft", "--spec-draft-hf")


def read_arguments(arguments: Sequence[str]) -> dict[str, object]:
    """The attributes that a command line sets, by their dotted names in `CommonParams`; the last
    flag wins.

    Formats of the cache and kinds of speculation stay names.

    Args:
        arguments: a command line of `llama-server` without the program's name; no short flags, no
            `--flag=value`.

    Raises:
        InputError: a flag that is not read here, one without its value, or a value that is no
            number.

    Example:
        >>> read_arguments(["--model", "a.gguf", "--parallel", "2", "--metrics"])
        {'n_parallel': 2, 'model.path': 'a.gguf', 'endpoint_metrics': True}
    """
    # left open, the number of slots is the server's to choose, and not the package's
    values: dict[str, object] = {"n_parallel": -1}
    words = iter(arguments)
    for flag in words:
        if flag in HUB:
            raise InputError(
                "must name a GGUF file: nothing is downloaded", key=flag, value=next(words, None)
            )
        if flag in SWITCHES:
            attribute, state = SWITCHES[flag]
            values[attribute] = state
        elif flag in VALUES:
            attributes, read = VALUES[flag]
            values |= dict.fromkeys(attributes, _value(flag, read, next(words, None)))
        else:
            raise UnknownNameError(
                "flag of llama-server", flag, (*VALUES, *SWITCHES), key="arguments"
            )
    # builds before the renaming draft with a model as soon as one is named
    if "--model-draft" in arguments and "--spec-type" not in arguments:
        values["speculative.types"] = ("draft-simple",)
    return values


def fill(parameters: Any, values: Mapping[str, object]) -> None:
    """Set attributes in the package's parameters.

    Args:
        parameters: a `xllamacpp.CommonParams`.
        values: as of `read_arguments`.

    Raises:
        UnknownNameError: a format of the cache or a kind of speculation that this build does not
            have.
    """
    for name, value in values.items():
        owner, _, attribute = name.rpartition(".")
        holder = attrgetter(owner)(parameters) if owner else parameters
        setattr(holder, attribute, _named(value, holder, attribute))


def _named(value: object, holder: Any, attribute: str) -> object:
    """A value, in which the package's own members stand for names."""
    import xllamacpp

    if attribute in ("cache_type_k", "cache_type_v"):
        return _member(xllamacpp.ggml_type, "GGML_TYPE_", str(value), attribute)
    if attribute == "types" and isinstance(value, tuple):
        kinds = xllamacpp.common_speculative_type
        # the engine's own parser adds to the kind "none" that is there
        return [
            *holder.types,
            *(_member(kinds, "COMMON_SPECULATIVE_TYPE_", name, attribute) for name in value),
        ]
    return value


def _value(flag: str, read: _Read, text: str | None) -> object:
    if text is None:
        raise InputError("needs a value", key=flag)
    try:
        return read(text)
    except ValueError:
        raise InputError("must be a number", key=flag, value=text) from None


def _member(kinds: Any, prefix: str, text: str, key: str) -> object:
    wanted = prefix + text.upper().replace("-", "_")
    members = {member.name: member for member in kinds}
    if wanted not in members:
        names = [name.removeprefix(prefix).lower().replace("_", "-") for name in members]
        raise UnknownNameError("name", text, names, key=key)
    return members[wanted]
