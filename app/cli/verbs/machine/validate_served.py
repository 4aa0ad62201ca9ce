"""Which engine does `validate` measure: one that is started here, or a server that somebody
runs?
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def run_served(
    server: str | None, engine: str | None, given: Mapping[str, Any], *, json: bool, quiet: bool
) -> None:
    """Hand the options of the verb to the engine that they name, each with its own defaults.

    Args:
        server: address of a running server; None: `engine` is started here.
        engine: transformers or llama.cpp; of a server any.
        given: options of `validate`, None where they were not given.
        json: print JSON.
        quiet: print nothing.

    Raises:
        InputError: an engine that does not run here, or what its validation refuses.
    """
    from hardware_profiles.errors import InputError

    shared = {"json": json, "quiet": quiet}
    if server is not None:
        _running(server, engine, given, **shared)
    elif engine == "llama.cpp":
        _llama_cpp(given, **shared)
    elif engine == "transformers":
        _transformers(given, **shared)
    else:
        rule = "transformers and llama.cpp run here; others by --server or --from-bench"
        raise InputError(rule, key="--engine", value=engine)


def torch_dtype(name: str | None) -> str:
    """The number format of our own engine as torch calls it.

    Raises:
        InputError: another one.
    """
    from hardware_profiles.errors import InputError

    known = {"fp32": "float32", "bf16": "bfloat16", None: "float32"}
    if name not in known:
        raise InputError("must be one of fp32, bf16", key="--dtype", value=name)
    return known[name]


def _running(
    server: str, engine: str | None, given: Mapping[str, Any], *, json: bool, quiet: bool
) -> None:
    from app.cli.verbs.machine.validate_restarted import validate_running
    from app.questions.values import whole_numbers

    asked = {
        "users": tuple(whole_numbers(given["batch"] or "1,4,16", "--batch", least=1, most=1024)),
        "draft_tokens": tuple(
            whole_numbers(given["draft_tokens"], "--draft-tokens", least=1, most=64)
        ),
        "max_new_tokens": given["new_tokens"] or 128,
        "rounds": given["rounds"] or 3,
        **{name: given[name] for name in ("out", "prompts", "resume", "seed")},
    }
    deployment = {
        "model": given["shape"],
        "device": given["profile"],
        "dtype": given["dtype"],
        "fidelity": given["fidelity"],
    }
    file = given["engine_file"]
    validate_running(
        server,
        asked,
        drafters=given["drafters"],
        deployment=deployment,
        draft_model=given["draft"],
        engine=engine if file is None else str(file),
        wait=given["wait"],
        json=json,
        quiet=quiet,
    )


def _llama_cpp(given: Mapping[str, Any], *, json: bool, quiet: bool) -> None:
    from app.cli.verbs.machine.validate_server import validate_llama_cpp
    from app.questions.values import whole_numbers

    asked = {
        "slots": tuple(whole_numbers(given["batch"] or "1,2,4", "--batch", least=1, most=64)),
        "contexts": tuple(
            whole_numbers(given["context"] or "256,1024,2048", "--context", least=1, most=1 << 20)
        ),
        "draft": None if given["draft"] is None else Path(given["draft"]).resolve(),
        "per_slots": given["per_cell"],
        "max_new_tokens": given["new_tokens"] or 64,
        "rounds": given["rounds"] or 3,
        **{
            name: given[name]
            for name in (
                "out",
                "profile",
                "fidelity",
                "prompts",
                "synthetic",
                "threads",
                "seed",
                "resume",
                "keep_disturbed",
            )
        },
    }
    validate_llama_cpp(
        asked,
        model=given["model"],
        engine_file=given["engine_file"],
        budget=given["budget"] or "40m",
        json=json,
        quiet=quiet,
    )


def _transformers(given: Mapping[str, Any], *, json: bool, quiet: bool) -> None:
    from app.cli.verbs.machine.validate_engine import validate_transformers
    from app.questions.values import whole_numbers

    lengths = whole_numbers(given["draft_tokens"], "--draft-tokens", least=1, most=64)
    validate_transformers(
        profile=given["profile"],
        model=given["model"],
        shape=given["shape"],
        dtype=torch_dtype(given["dtype"]),
        threads=given["threads"],
        fidelity=given["fidelity"],
        draft_tokens=max(lengths),
        new_tokens=given["new_tokens"] or 32,
        rounds=given["rounds"] or 4,
        keep_disturbed=given["keep_disturbed"],
        out=given["out"],
        json=json,
        quiet=quiet,
    )
