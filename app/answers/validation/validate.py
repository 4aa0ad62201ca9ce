"""`validate`: predict, run for real, and say how far off the predictions were.

Each way of running is a module of its own, loaded where it is asked for: most need torch, which a
benchmark beside a prediction does not.
"""

from dataclasses import replace

from app.answers.answer import Answer
from app.answers.validation.against import Against
from app.answers.validation.benchmarks import compare_benchmarks
from app.answers.validation.card import validate_card
from app.answers.validation.llama_cpp import validate_llama_cpp
from app.answers.validation.masked import validate_masked_blocks
from app.answers.validation.own_loop import planned_runs, score_passes, validate_here
from app.answers.validation.restarted import validate_running
from app.answers.validation.timed import validate_trace
from app.answers.validation.transformers import validate_exported
from app.questions.places import require_folder
from app.questions.validate import ValidateQuestion
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration
from costmodel.configuration.file import read_configuration
from costmodel.passes.deployment import Fidelity
from costmodel.passes.measured import add_results
from hardware_profiles.errors import InputError


def answer(question: ValidateQuestion) -> Answer:
    """Run what a question names, or read what was run, beside what is predicted of it.

    Raises:
        InputError: options that do not go together, or what the validation refuses.
    """
    if question.from_bench and question.replayed:
        raise InputError("give either --from-bench or --replayed", key="--from-bench")
    if question.from_bench:
        return compare_benchmarks(question)
    if question.method:
        return validate_masked_blocks(question)
    if question.quick:
        return validate_card(question)
    chosen = _chosen(question)
    if question.dry_run:
        return planned_runs(question, chosen)
    if chosen is not None:
        question = replace(
            question, profile=chosen.deployment.device, shape=chosen.deployment.model
        )
    require_folder(question.out)
    return _beside(question, _against(question, chosen))


def _beside(question: ValidateQuestion, against: Against) -> Answer:
    """Runs beside predictions: of passes that lie there, of an engine, or of our own loop."""
    if question.replayed is not None:
        return score_passes(question, against)
    if question.trace is not None:
        return validate_trace(question, against)
    if question.tp != 1 and question.server is None:
        rule = "goes with --server; whatever runs here runs on one device"
        raise InputError(rule, key="--tp", value=question.tp)
    if question.server is not None:
        return validate_running(question, against)
    if question.engine == "llama.cpp":
        return validate_llama_cpp(question, against)
    if question.engine == "transformers":
        return validate_exported(question, against)
    if question.engine is not None:
        rule = "transformers and llama.cpp run here; others by --server or --from-bench"
        raise InputError(rule, key="--engine", value=question.engine)
    return validate_here(question, against)


def _against(question: ValidateQuestion, chosen: DecodingConfiguration | None) -> Against:
    """The profile that predicts, which may then find measured passes that are not shipped."""
    fidelity = _fidelity(
        question.fidelity
        or ("calibrated" if question.server or _reads_trace(question) else "measured")
    )
    if question.results is not None:
        add_results(question.results)
    if question.profile is None:
        rule = "name the profile that predicts; `rooftree calibrate` makes one of this machine"
        raise InputError(rule, key="--profile")
    return Against(profile=question.profile, fidelity=fidelity, chosen=chosen)


def _chosen(question: ValidateQuestion) -> DecodingConfiguration | None:
    """The configuration of a file on the device profile that predicts; None without a file."""
    if question.config is None:
        return None
    chosen = read_configuration(question.config)
    model = load_model(chosen.deployment.model).name
    if model != load_model(question.shape).name:
        raise InputError(
            f"the configuration is for {model}; name it with --shape",
            key="--shape",
            value=question.shape,
        )
    device = question.profile or chosen.deployment.device
    return replace(chosen, deployment=replace(chosen.deployment, device=device, model=model))


def _reads_trace(question: ValidateQuestion) -> bool:
    """Whether the steps of a recording are what is validated."""
    return question.trace is not None and question.replayed is None


def _fidelity(name: str) -> Fidelity:
    if name == "measured":
        return "measured"
    if name == "calibrated":
        return "calibrated"
    raise InputError("must be measured or calibrated", key="--fidelity", value=name)
