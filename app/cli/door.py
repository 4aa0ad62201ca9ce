"""How does a verb become a command, and how is it asked?

Its fields become options in panels, as `--help` shows them. Leaves out what a field is
(`app.questions.field`) and what verbs answer.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

from app.answers.answer import Answer
from app.cli import completion
from app.cli.progress import remark
from app.questions import fields as table
from app.questions.field import Group, NamedField, Question, begins_of, fields_of, stated_words
from app.questions.places import is_object, require_file, require_folder
from app.render.csv import write_csv
from app.render.files import write_files, write_plot
from app.render.json import jsonable, print_json, write_json
from app.render.text import show
from hardware_profiles.errors import InputError

Verb = Callable[..., Question]
_TABLE = {
    row: place
    for place, hint in enumerate(vars(table).values())
    for row in getattr(hint, "__metadata__", ())
}


def ask(verb: Verb, values: Mapping[str, Any], *, silent: bool = False) -> Answer:
    """Ask a verb; the one way by which every door does.

    Args:
        verb: the question that it answers.
        values: what is stated, by name and of the field's type; the rest holds its default.
        silent: print nothing, and write only where `values` say so.

    Raises:
        InputError: a field that must be stated is not, or a file or folder that cannot be written.
    """
    question = question_of(verb, values, silent=silent)
    answer = answer_of(question)
    if (plot := getattr(question, "plot", None)) is not None:
        write_plot(answer, plot)
    hand_over(answer, question)
    answer.require()
    answer.afterwards()
    return answer


def question_of(verb: Verb, values: Mapping[str, Any], *, silent: bool = False) -> Question:
    """The question of a verb, before it is answered.

    Args:
        verb: as for `ask`.
        values: as for `ask`.
        silent: as for `ask`.

    Raises:
        InputError: as `ask`.
    """
    wanted = fields_of(verb)
    if missing := [
        f for f in wanted if f.default is inspect.Parameter.empty and f.name not in values
    ]:
        raise InputError("must be stated", key=missing[0].option)
    complete = {f.name: values.get(f.name, f.default) for f in wanted}
    if silent:
        complete |= {
            name: new for name, new in (("quiet", True), ("json", False)) if name in complete
        }
        if "out" in complete:
            complete["out"] = values.get("out")
    for f in wanted:
        _check_place(f, complete[f.name])
        if f.row.names == "models" and complete[f.name]:
            complete[f.name] = _with_family(complete[f.name], complete)
        if f.row.names == "devices" and complete[f.name]:
            _refuse_counted(complete[f.name], f, [other.name for other in wanted])
            complete[f.name] = _profiles(complete[f.name], quiet=bool(complete.get("quiet")))
    return verb(**complete, stated=frozenset(values))


def answer_of(question: Question) -> Answer:
    """What a verb answers, brought nowhere; a door that shows rows of its own reads it here.

    Args:
        question: of `question_of`.

    Raises:
        RooftreeError: the verb's own.
    """
    try:
        answer: Answer = import_module(question.answered_by).answer(question)
    except InputError as error:
        _name_file(error, question)
        raise
    return answer


def hand_over(answer: Answer, question: Any) -> None:
    """Bring an answer where the question wants it: files first, then the object or the tables.

    Args:
        answer: to show.
        question: whose output options say where.

    Raises:
        InputError: a place cannot be written.
    """
    if not answer.is_written:
        _write(answer, question)
    if question.json:
        print_json(jsonable(answer))
    elif not question.quiet:
        show(answer.shown())


def _write(answer: Answer, question: Any) -> None:
    """Write the rows, and the object or the files."""
    if (csv := getattr(question, "csv", None)) is not None:
        write_csv(jsonable(answer.own_rows), csv)
    if answer.name and question.out is not None and is_object(question.out):
        write_json(jsonable(answer), question.out)
    elif question.out is not None and answer.has_files:
        write_files(answer, question.out)


def _name_file(error: InputError, question: Question) -> None:
    """Say in the refusal of a whole file which option named it."""
    kind: Verb = type(question)
    for f in fields_of(kind):
        value = getattr(question, f.name)
        named = value if isinstance(value, list) else [value]
        is_named = any(isinstance(path, Path) and str(path) == error.file for path in named)
        if is_named and error.key is None and f.name in question.stated and not f.row.argument:
            error.message, error.key = f"{error.file}: {error.message}", f.option
            error.file = None


def _check_place(f: NamedField, value: Any) -> None:
    """Refuse, before any work, a folder or file that cannot be written."""
    if value is not None and f.row.place == "folder" and not is_object(value):
        require_folder(value, f.option)
    elif value is not None and f.row.place == "folder":
        require_folder(value.parent, f.option)
    elif value is not None and f.row.place == "file":
        require_file(value, f.option)


def _with_family(models: str, values: Mapping[str, Any]) -> str:
    """Models with the family that --as names, after a line on how an id that is no shipped name is
    understood.
    """
    from costmodel.architectures.library import how_read

    if family := values.get("as_family"):
        models = ",".join(f"{name.strip()} as {family}" for name in models.split(","))
    for name in models.split(",") if not values.get("quiet") else ():
        if words := how_read(name.strip()):
            remark(words)
    return models


_COUNTED = re.compile(r"\s*([0-9]{1,4})\s*[x×*]\s*(\S.*)", re.IGNORECASE)


def _refuse_counted(devices: Any, field: NamedField, fields: Sequence[str]) -> None:
    """Refuse a number of devices in the place of a device: `4 x h100-sxm`.

    Args:
        devices: names or files, several by commas, or a list of such texts.
        field: that holds them.
        fields: names of those that the verb takes.

    Raises:
        InputError: a name that is a number of devices.
    """
    for name in ",".join(stated_words(devices)).split(","):
        counted = _COUNTED.fullmatch(name)
        if counted is None or Path(name).is_file():
            continue
        number, device = counted[1], counted[2].strip()
        rule = f"names one device: {field.option} {device}"
        if "tp" in fields:
            rule += f" --tp {number} shares the model among {number} of them"
        raise InputError(rule, key=field.keyword, value=name.strip())


def _profiles(devices: Any, *, quiet: bool) -> Any:
    """Devices by the names of their profiles, after a line on every one that was named otherwise.

    Args:
        devices: names or files, several by commas, or a list of such texts.
        quiet: without the lines.
    """
    from hardware_profiles.loader import profile_name

    if isinstance(devices, list):
        return [_profiles(part, quiet=quiet) for part in devices]
    names = [name.strip() for name in devices.split(",")]
    profiles = [profile_name(name) for name in names]
    for name, profile in zip(names, profiles, strict=True):
        if profile != name and not quiet:
            remark(f"{name} is read as {profile}")
    return ",".join(profiles)


def command_of(verb: Verb) -> Callable[..., Any]:
    """A verb as typer takes it: options in place of its parameters."""

    def run(running: typer.Context, help_all: bool = False, **values: Any) -> Any:
        sources = {name: running.get_parameter_source(name) for name in values}
        stated = {
            f.name: _read(f, values[f.name])
            for f in fields_of(verb)
            if (source := sources[f.name]) is not None and source.name == "COMMANDLINE"
        }
        try:
            return ask(verb, stated)
        except InputError as error:
            _spell(error, verb)
            raise

    context = inspect.Parameter(
        "running", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )
    options = [
        inspect.Parameter(
            f.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=f.default if f.default is inspect.Parameter.empty else f.written(f.default),
            annotation=Annotated[_declared_type(f), _declared(f)],
        )
        for f in sorted(fields_of(verb), key=_position)
    ]
    # typer reads the options of a function off its signature
    run.__signature__ = inspect.Signature([context, *options, *([_ALL] if begins_of(verb) else [])])  # type: ignore[attr-defined]
    run.__annotations__ = {}
    run.__name__, run.__doc__ = verb.__name__, verb.__doc__
    return run


def _spell(error: InputError, verb: Verb) -> None:
    """Name the field of a refusal by its option; keys of files keep their names."""
    options = {f.keyword: f.option for f in fields_of(verb) if not f.row.argument}
    if error.file is None and error.key in options:
        error.key = options[error.key]


def _position(f: NamedField) -> int:
    """Where help shows a field: arguments in their order, then as the table has them, then those of
    the verb alone.
    """
    return -1 if f.row.argument else _TABLE.get(f.row, len(_TABLE))


def _read(f: NamedField, value: Any) -> Any:
    """What typer hands over, which is a text where the field has a reader."""
    return value if f.row.reads is None else f.read(value, key=f.option)


def _declared_type(f: NamedField) -> Any:
    """The type that typer reads a field as; a text where the field has a reader."""
    if f.row.reads is None:
        return f.hint
    return str if f.default is not None else str | None


def _declared(f: NamedField) -> Any:
    """The option, or argument, of a field."""
    row = f.row
    offered = getattr(completion, row.names) if row.names else None
    shown: dict[str, Any] = {"help": row.meaning, "autocompletion": offered}
    of_reader = None if row.reads is None else row.reads.placeholder
    placeholder = row.placeholder or of_reader or _repeated(f.hint)
    shown |= {"metavar": placeholder} if placeholder else {}
    if row.argument:
        return typer.Argument(**shown)
    spelled = [word for word in (row.spelled or f.option, row.also) if word]
    return typer.Option(
        *spelled, min=row.least, max=row.most, rich_help_panel=str(row.group), **shown
    )


def _repeated(hint: Any) -> str | None:
    """What help shows for one value of an option that is repeated; None of other options."""
    for part in (hint, *get_args(hint)):
        if get_origin(part) is list:
            return f"<{get_args(part)[0].__name__.lower()}>"
    return None


def _help_all(running: typer.Context, wanted: bool) -> None:
    """Print the help with every option, and end."""
    if wanted:
        running.meta[_WITH_ALL] = True
        print(running.get_help())
        raise typer.Exit


_WITH_ALL = "rooftree.help_all"
_ALL = inspect.Parameter(
    "help_all",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option(
            "--help-all", callback=_help_all, is_eager=True, help="Show all options and exit."
        ),
    ],
)


class PanelledCommand(typer.core.TyperCommand):
    """A command whose help shows its options by the group in which a person looks for them.

    Of a question that names where people begin, `--help` shows these options alone.
    """

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for every group that has options, the arguments first."""
        begins = () if ctx.meta.get(_WITH_ALL) else begins_of(ctx.obj)
        sections: dict[str, list[tuple[str, str]]] = {
            title: [] for title in ("Arguments", *map(str, Group))
        }
        for parameter in self.get_params(ctx):
            is_ours = parameter.name not in ("help", "help_all")
            if begins and is_ours and parameter.name not in begins:
                continue
            if (record := parameter.get_help_record(ctx)) is not None:
                usual = "Arguments" if parameter.param_type_name == "argument" else Group.OUTPUT
                title = getattr(parameter, "rich_help_panel", None) or usual
                sections[str(title)].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
