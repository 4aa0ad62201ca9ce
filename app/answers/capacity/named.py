"""What do the cells, tensor devices and methods that are named cost a load?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.answers.capacity.drafts import PLAIN, ComparedDrafts, compared_drafts
from app.answers.capacity.service import Planned, Service
from app.answers.cells import marked, names_of, runnable
from app.answers.placements import MarkedPlacement
from app.questions.capacity import CapacityQuestion
from app.questions.groups import DraftingOptions, FormatOptions, values_in
from app.questions.resolve.chosen_configuration import configuration_of, with_options
from costmodel.answers.estimate import Setting
from costmodel.answers.positions import require_positions
from costmodel.answers.settings import build_setting
from costmodel.answers.workload import Limits, Load
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance, geometric
from costmodel.optimizers.drafters.competing import carried, competing
from costmodel.optimizers.layouts import layout_of
from hardware_profiles.errors import InfeasibleError, InputError


@dataclass(frozen=True, kw_only=True, slots=True)
class _Case:
    """A cell at a number of tensor devices with a method."""

    configuration: DecodingConfiguration
    drafts: Sequence[Acceptance]


def named_plans(
    question: CapacityQuestion,
    cells: Sequence[Mapping[str, str]],
    drafts: ComparedDrafts,
    load: Load,
    limits: Limits,
) -> list[Planned]:
    """A plan, or a mark, of every cell in every format at every number of tensor devices, plain and
    with the method.

    Args:
        question: what is asked.
        cells: model, device and engine by name.
        drafts: of the method; none where only plain decoding is planned.
        load: what has to be served.
        limits: of latency.

    Raises:
        InputError: a value out of range, or no cell that can run.
    """
    spread = {"pp": question.pp, "ep": question.ep, "dp": question.dp}
    options = {**values_in(FormatOptions, question), "dtype": None}
    base = configuration_of(None, {**options, **cells[0], **spread})
    methods = {
        model: _methods(
            question,
            with_options(base, {"model": model}),
            drafts
            if model == cells[0]["model"] or drafts.source is None or not drafts.source.looked_up
            else compared_drafts(question, model),  # every model takes what suits it best
        )
        for model in dict.fromkeys(cell["model"] for cell in cells)
    }
    formats = [None] if question.dtype is None else names_of(question.dtype, "--dtype")
    cases = [
        _Case(
            configuration=replace(
                with_options(base, {**cell, "tp": size, "dtype": dtype}), **changes
            ),
            drafts=compared,
        )
        for cell in cells
        for dtype in formats
        for size in question.tp
        for changes, compared in methods[cell["model"]]
    ]

    def build(case: _Case) -> Setting:
        setting = build_setting(case.configuration)
        require_positions(setting.target, load.longest_context, "prompt and output")
        return setting

    built = runnable(cases, build)
    return [_plan(question, case, setting, load, limits) for case, setting in built]


def _methods(
    question: CapacityQuestion, base: DecodingConfiguration, drafts: ComparedDrafts
) -> list[tuple[dict[str, Any], Sequence[Acceptance]]]:
    """What is planned on a model: fields of a configuration, and the drafts to choose among."""
    plain: tuple[dict[str, Any], Sequence[Acceptance]] = ({"method": PLAIN}, [geometric(0.0, 0)])
    if not drafts.drafts:
        return [plain]
    drafter = _drafter(question, base, drafts)
    return [plain, ({"method": drafts.method, **drafter}, drafts.drafts)]


def _drafter(
    question: CapacityQuestion, base: DecodingConfiguration, drafts: ComparedDrafts
) -> dict[str, Any]:
    """What drafts, by fields of a configuration: as options say, else as what is accepted does."""
    if drafts.source is None:
        return {}
    options = values_in(DraftingOptions, question)
    stated = {name: value for name, value in options.items() if value is not None}
    configuration = with_options(base, stated)
    (source,) = competing(configuration, [drafts.source])
    return {"exit_layers": configuration.exit_layers, **carried(source)}


def _plan(
    question: CapacityQuestion, case: _Case, setting: Setting | str, load: Load, limits: Limits
) -> Planned:
    """A plan, or the mark of a cell that cannot run, holds no request or misses the limits."""
    where = case.configuration.deployment
    formats = None if isinstance(setting, str) else setting.deployment.precision
    names: dict[str, Any] = {
        "model": where.model,
        "device": where.device,
        "engine": where.engine,
        "tp": where.tensor_parallel,
        "layout": str(layout_of(case.configuration)),
        "dtype": where.dtype if formats is None else formats.label,
        "kv_dtype": where.kv_dtype if formats is None else formats.kv,
        "method": case.configuration.method,
    }
    if isinstance(setting, str):
        return Planned(row=MarkedPlacement(**names, reason=setting))
    service = Service(
        question=question,
        limits=limits,
        configuration=case.configuration,
        setting=setting,
        drafts=case.drafts,
        names=names,
    )

    def holds(changed: DecodingConfiguration, at: Setting, batch: int, context: int) -> bool:
        try:
            return bool(replace(service, configuration=changed, setting=at).planned(load))
        except InfeasibleError:
            return False

    try:
        return Planned(row=service.planned(load), service=service)
    except InputError as error:
        return Planned(row=MarkedPlacement(**names, reason=str(error)), service=service)
    except InfeasibleError as error:
        misses = "limits" if str(error).startswith("SLO") else "memory"
        mark = marked(
            case.configuration,
            case.drafts[0],
            str(error),
            batch=1,
            context=0,
            holds=holds,
            misses=misses,
        )
        return Planned(row=MarkedPlacement(**names, **mark), service=service)
