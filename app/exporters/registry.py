"""Which engines can a configuration be exported to, and how does an export reach the disk?

Every engine whose record says what its configuration can express has a module of its record's name
here, with a function `export_` and that name, which says how the engine spells it. Configurations
that decode masked blocks have modules of their own in `diffusion`, for programs that are no engines
here, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Protocol

from app.exporters.dialect import NODE_DEVICES, Dialect, options_of
from app.exporters.diffusion.program import Program, refines
from app.exporters.result import ExportResult, Written
from costmodel.configuration import DecodingConfiguration
from costmodel.engine_library import engine_module, engine_names, load_engine, refining_names
from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import whole_folder


class Exporter(Protocol):
    """Writes a configuration for one engine."""

    def __call__(
        self, chosen: DecodingConfiguration, dialect: Dialect, *, synthetic: bool, approximate: bool
    ) -> Written:
        """Write the configuration.

        Args:
            chosen: what to run; the engine's record says that the release can express it.
            dialect: the engine at the release that was asked for.
            synthetic: draw acceptance from `chosen.acceptance_by_depth` instead of verifying.
            approximate: put the nearest thing the engine has in the place of what it cannot
                express.

        Raises:
            InputError: the engine cannot express the configuration.
        """


ENGINES = tuple(name for name in engine_names() if load_engine(name).options is not None)
MASKED_PROGRAMS = tuple(refining_names())
"""Programs that configurations of masked decoding are written for."""


def export(
    chosen: DecodingConfiguration,
    engine: str,
    version: str | None = None,
    synthetic: bool = False,
    approximate: bool = False,
    variant: str = "",
    node_devices: int = NODE_DEVICES,
) -> ExportResult:
    """Write a configuration in the form that an engine loads as it is.

    Example:
        >>> from costmodel.configuration import DecodingConfiguration, DeploymentNames
        >>> where = DeploymentNames(model="llama-3.1-8b")
        >>> chosen = DecodingConfiguration(deployment=where, method="n-gram", draft_tokens=4)
        >>> sorted(export(chosen, "vllm").files)
        ['vllm-serve.sh', 'vllm-speculative-config.json']

    Args:
        chosen: what to run.
        engine: a name in `ENGINES`; of `MASKED_PROGRAMS` where masked blocks are decoded.
        version: release of the engine, None for the newest that was read in full.
        synthetic: draw acceptance from `chosen.acceptance_by_depth` instead of verifying, to time a
            what-if.
        approximate: put the nearest thing the engine has in the place of what it cannot express,
            and say so.
        variant: the engine's name of another implementation of the same drafting, as `ngram_gpu`.
        node_devices: devices of one server; a deployment of more spreads over several.

    Returns:
        Files, the command that uses them, and notes.

    Raises:
        UnknownNameError: engine or version is not known.
        InputError: that version cannot express the configuration; names engine, version, key, rule
            and value.
    """
    if refines(chosen):
        return _export_masked(
            chosen, engine, version, draft_options={"synthetic": synthetic, "variant": variant}
        )
    if engine in MASKED_PROGRAMS and engine not in ENGINES:
        raise Program.of(engine, version).refusal(
            "method", "decodes masked blocks alone", chosen.method
        )
    release = options_of(engine).default if version is None else version
    module = engine_module(engine)
    write: Exporter = getattr(import_module(f"app.exporters.{module}"), f"export_{module}")
    dialect = Dialect.of(engine, release, variant=variant, node_devices=node_devices)
    dialect.check(chosen, synthetic=synthetic, approximate=approximate)
    written = write(chosen, dialect, synthetic=synthetic, approximate=approximate)
    return ExportResult(
        engine=engine,
        version=release,
        checked_against=dialect.releases,
        files=written.files,
        command=written.command,
        notes=tuple(written.notes),
    )


def _export_masked(
    chosen: DecodingConfiguration,
    engine: str,
    version: str | None,
    *,
    draft_options: Mapping[str, object],
) -> ExportResult:
    """Write a configuration that decodes masked blocks."""
    if engine not in MASKED_PROGRAMS:
        release = options_of(engine).default if version is None else version
        why = _NO_MASKED.get(engine, "was not looked up for masked blocks")
        raise InputError(
            f"{engine} {release}: {why}; {', '.join(MASKED_PROGRAMS)} are known",
            key="method",
            value=chosen.method,
        )
    program = Program.of(engine, version)
    for key, value in draft_options.items():
        if value:
            raise program.refusal(
                key, "belongs to drafts, and masked blocks are decoded without", value
            )
    module = engine.replace("-", "_")
    write = getattr(import_module(f"app.exporters.diffusion.{module}"), f"export_{module}")
    written: Written = write(program, program.decoded(chosen))
    return ExportResult(
        engine=engine,
        version=program.version,
        checked_against=(program.version,),
        files=written.files,
        command=written.command,
        notes=tuple(written.notes),
    )


_NO_MASKED = {
    "vllm": (
        "its diffusion config holds a canvas' length and the most passes, and no commit rule: that"
        " is the model's"
    ),
}


def write_export(result: ExportResult, folder: str | Path) -> tuple[Path, ...]:
    """Write the files of an export: all appear or none does, and they replace those of their names.

    Args:
        result: what `export` returned.
        folder: where to put the files; made if absent.

    Returns:
        The paths written, in the order of `result.files`.

    Raises:
        InputError: a file name leads out of the folder, or the folder cannot be written.
        OSError: the disk is full or fails.
    """
    target = Path(folder)
    for name in result.files:
        parts = PurePosixPath(name).parts
        if not parts or PurePosixPath(name).is_absolute() or ".." in parts:
            raise InputError(
                "an exported file must stay inside the folder", key="files", value=name
            )
    with whole_folder(target) as stage:
        for name, content in result.files.items():
            staged = stage / name
            staged.parent.mkdir(parents=True, exist_ok=True)
            staged.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
            staged.chmod(0o755 if name.endswith(".sh") else 0o644)
    return tuple(target / name for name in result.files)
