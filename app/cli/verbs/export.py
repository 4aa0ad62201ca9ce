"""`export`: an answer of `optimize`, a stated configuration or a tree, in the form that an engine
or program loads.
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from app.cli.output import Answered
from app.questions.field import Field, Group
from app.questions.fields import Json, Quiet, Seed
from app.questions.resolve.exported import ExportTarget, Imitated, Started, exported_configuration

if TYPE_CHECKING:
    from app.exporters.result import ExportResult


def export(
    engine: Annotated[
        str,
        Field(
            (
                "vllm, sglang, tensorrt-llm, llama.cpp or transformers; for masked blocks sglang,"
                " lmdeploy, fast-dllm "
                "or dinfer; or a form of --tree: medusa-choices, eagle-choices, sequoia-growmap,"
                " vllm-tree or samd-json."
            ),
            Group.WORKLOAD,
            argument=True,
        ),
    ],
    started: Started,
    served: ExportTarget,
    imitated: Imitated,
    engine_version: Annotated[str | None, Field("Version to write for.", Group.HARDWARE)] = None,
    variant: Annotated[
        str,
        Field(
            "The engine's other implementation of the drafting: ngram_gpu, ngram-mod.",
            Group.DRAFTING,
        ),
    ] = "",
    approximate: Annotated[
        bool,
        Field("Write the nearest thing the engine has for what it cannot express.", Group.DRAFTING),
    ] = False,
    synthetic: Annotated[
        bool,
        Field("Write acceptance rates that the engine imitates, to try a what-if.", Group.DRAFTING),
    ] = False,
    out: Annotated[Path | None, Field("Folder for the files.", Group.OUTPUT)] = Path(
        "rooftree-out"
    ),
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """Write a configuration in the form an engine loads; refuse what its version cannot express."""
    from app.cli.output import deliver
    from app.exporters.registry import export as export_configuration
    from app.exporters.registry import write_export
    from app.exporters.tree_forms import TREE_FORMS
    from app.render.text import say

    if engine in TREE_FORMS:
        result = _tree_alone(engine, started)
    else:
        _require_engine(engine)
        result = export_configuration(
            exported_configuration(started, served, imitated, synthetic=synthetic),
            engine,
            engine_version,
            synthetic=synthetic,
            approximate=approximate,
            variant=variant,
            node_devices=served.node_devices,
        )
    paths = [str(out / name) if out is not None else name for name in result.files]
    options = asdict(started) | asdict(served) | asdict(imitated)
    inputs = {
        "engine": engine,
        "engine_version": engine_version,
        "variant": variant,
        "approximate": approximate,
        **{
            name: str(value) if isinstance(value, Path) else value
            for name, value in options.items()
        },
        "synthetic": synthetic,
        "seed": seed,
    }

    def show() -> None:
        say(f"{result.engine} {result.version}".rstrip() + f": {', '.join(paths)}")
        if result.command:
            say(result.command)
        for note in result.notes:
            say(f"note: {note}")

    written = {"engine": result.engine, "version": result.version, "files": paths}
    return deliver(
        {"inputs": inputs, **written, "command": result.command, "notes": list(result.notes)},
        name="",
        json=json,
        out=out,
        quiet=quiet,
        show=show,
        also=lambda folder: write_export(result, folder),
    )


def _require_engine(name: str) -> None:
    from app.exporters.dialect import options_of
    from app.exporters.registry import ENGINES, MASKED_PROGRAMS
    from app.exporters.tree_forms import TREE_FORMS
    from hardware_profiles.errors import UnknownNameError

    if name in MASKED_PROGRAMS:
        return
    try:
        options_of(name)
    except UnknownNameError:
        known = dict.fromkeys([*ENGINES, *MASKED_PROGRAMS, *TREE_FORMS])
        raise UnknownNameError("engine or tree form", name, known, key="engine") from None


def _tree_alone(form: str, started: Started) -> "ExportResult":
    from app.exporters.tree_forms import write_tree
    from costmodel.configuration.file import read_configuration
    from hardware_profiles.errors import InputError
    from traces.kinds.tree import read_tree

    if started.tree is not None:
        return write_tree(read_tree(started.tree), form)
    if started.config is None:
        raise InputError(
            f"{form} needs a tree: --tree FILE, or --config of a configuration with one",
            key="--tree",
        )
    chosen = read_configuration(
        started.config, batch=started.batch, context=started.context, scheduled=False
    )
    if chosen.tree is None:
        raise InputError(
            f"{form} holds a static tree",
            file=str(started.config),
            key="shape",
            value=chosen.topology,
        )
    return write_tree(chosen.tree, form)
