"""Which engines can a choice be exported to, and how does an export reach the disk?

One entry per engine; how each one spells things is in the module of its name.
"""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from app.exporters import llama_cpp, sglang, tensorrt_llm, transformers, vllm
from app.exporters.choice import DecodingChoice
from app.exporters.result import ExportResult
from hardware_profiles.errors import InputError, UnknownNameError


class Exporter(Protocol):
    """Writes a choice for one engine."""

    def __call__(self, choice: DecodingChoice, *, version: str, synthetic: bool, approximate: bool) -> ExportResult:
        """Write the choice, or raise InputError where the engine cannot express it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """A serving engine that choices can be written for.

    Args:
        name: how it is asked for.
        default_version: release that is written for unless another is named.
        versions: releases whose rules are known, oldest first.
        export: writes a choice.
    """

    name: str
    default_version: str
    versions: tuple[str, ...]
    export: Exporter


ENGINES: Mapping[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine(name="vllm", default_version=vllm.DEFAULT_VERSION, versions=vllm.RELEASES, export=vllm.export_vllm),
        Engine(
            name="sglang",
            default_version=sglang.DEFAULT_VERSION,
            versions=sglang.RELEASES,
            export=sglang.export_sglang,
        ),
        Engine(
            name="tensorrt-llm",
            default_version=tensorrt_llm.DEFAULT_VERSION,
            versions=tensorrt_llm.RELEASES,
            export=tensorrt_llm.export_tensorrt_llm,
        ),
        Engine(
            name="llama.cpp",
            default_version=llama_cpp.DEFAULT_VERSION,
            versions=llama_cpp.RELEASES,
            export=llama_cpp.export_llama_cpp,
        ),
        Engine(
            name="transformers",
            default_version=transformers.DEFAULT_VERSION,
            versions=transformers.RELEASES,
            export=transformers.export_transformers,
        ),
    )
}


def export(
    choice: DecodingChoice,
    engine: str,
    version: str | None = None,
    synthetic: bool = False,
    approximate: bool = False,
) -> ExportResult:
    """Write a choice in the form that an engine loads as it is.

    Args:
        choice: what to run.
        engine: a name in `ENGINES`.
        version: release of the engine, None for the newest that was read in full.
        synthetic: draw acceptance from `choice.acceptance_by_depth` instead of verifying, to time a what-if.
        approximate: put the nearest thing the engine has in the place of what it cannot express, and say so.

    Returns:
        Files, the command that uses them, and notes.

    Raises:
        UnknownNameError: engine or version is not known.
        InputError: that version cannot express the choice; names engine, version, key, rule and value.

    Example:
        >>> choice = DecodingChoice(model="m", context=1024, method="ngram", draft_tokens=4, topology="chain")
        >>> sorted(export(choice, "vllm").files)
        ['vllm-serve.sh', 'vllm-speculative-config.json']
    """
    if engine not in ENGINES:
        raise UnknownNameError("engine", engine, ENGINES, key="engine")
    entry = ENGINES[engine]
    return entry.export(
        choice,
        version=entry.default_version if version is None else version,
        synthetic=synthetic,
        approximate=approximate,
    )


def write_export(result: ExportResult, folder: str | Path) -> tuple[Path, ...]:
    """Write the files of an export: each appears whole or not at all, and replaces one of its name.

    Args:
        result: what `export` returned.
        folder: where to put the files; made if absent.

    Returns:
        The paths written, in the order of `result.files`.

    Raises:
        InputError: a file name leads out of the folder, or the folder cannot be written.
    """
    target = Path(folder)
    for name in result.files:
        parts = PurePosixPath(name).parts
        if not parts or PurePosixPath(name).is_absolute() or ".." in parts:
            raise InputError("an exported file must stay inside the folder", key="files", value=name)
    try:
        target.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=".export-", dir=target))
        try:
            return _move_in(result.files, stage, target)
        finally:
            shutil.rmtree(stage, ignore_errors=True)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=target) from error


def _move_in(files: Mapping[str, str], stage: Path, target: Path) -> tuple[Path, ...]:
    for name, content in files.items():
        staged = stage / name
        staged.parent.mkdir(parents=True, exist_ok=True)
        staged.write_text(content, encoding="utf-8", newline="\n")
        staged.chmod(0o755 if name.endswith(".sh") else 0o644)
    written = []
    for name in files:
        final = target / name
        final.parent.mkdir(parents=True, exist_ok=True)
        (stage / name).replace(final)
        written.append(final)
    return tuple(written)
