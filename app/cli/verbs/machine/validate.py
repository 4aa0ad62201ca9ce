"""`validate`: predict, run for real, and say how far off the predictions were."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from app.questions.field import Field, Group, Stated
from app.questions.fields import Config, Json, Quiet, Seed
from app.questions.values import whole_numbers

if TYPE_CHECKING:
    from costmodel.configuration import DecodingConfiguration
    from costmodel.passes.deployment import Fidelity


def validate(
    stated: Stated,
    profile: Annotated[
        str | None,
        Field("Device profile that predicts: name or .toml file.", Group.HARDWARE),
    ] = None,
    results: Annotated[
        Path | None,
        Field("Folder with measured passes that are not shipped.", Group.HARDWARE),
    ] = None,
    model: Annotated[
        Path | None,
        Field("A .gguf file or Hugging Face folder; default: SmolLM2-135M.", Group.WORKLOAD),
    ] = None,
    shape: Annotated[
        str, Field("Name that the cost model knows the model by.", Group.DRAFTING)
    ] = "smollm2-135m",
    prompts: Annotated[
        Path | None,
        Field("Prompt file with the kinds of the shipped one.", Group.WORKLOAD),
    ] = None,
    device: Annotated[str, Field("Torch device.", Group.HARDWARE)] = "cpu",
    dtype: Annotated[
        str | None,
        Field(
            "fp32 or bf16 [fp32]; of a server's weights any format [its checkpoint's].",
            Group.FORMATS,
        ),
    ] = None,
    threads: Annotated[
        int, Field("CPU threads: those of the profile.", Group.HARDWARE, least=1)
    ] = 1,
    drafter: Annotated[
        list[str] | None,
        Field("Repeat for several [all]; with --server one, METHOD:SOURCE.", Group.DRAFTING),
    ] = None,
    context: Annotated[
        str | None,
        Field(
            (
                "Lengths that prompts are filled up to; 0: as they are. [0,512,1024; server"
                " 256,1024,2048]"
            ),
            Group.WORKLOAD,
        ),
    ] = None,
    fit_context: Annotated[
        str,
        Field("Lengths that loop costs are fitted on; none of them is scored.", Group.WORKLOAD),
    ] = "256,704",
    batch: Annotated[
        str | None,
        Field("Requests that run together, a server's slots. [1,4; server 1,2,4]", Group.WORKLOAD),
    ] = None,
    per_cell: Annotated[
        int,
        Field("Configurations beside plain decoding and the choice.", Group.RUN, least=0, most=64),
    ] = 4,
    rounds: Annotated[
        int | None,
        Field("Times that everything is run. [4; server 3]", Group.RUN, least=1, most=100),
    ] = None,
    new_tokens: Annotated[
        int | None,
        Field("Longest answer. [32; server 64]", Group.WORKLOAD, least=4, most=4096),
    ] = None,
    fidelity: Annotated[
        str | None,
        Field("measured or calibrated. [measured; with --server calibrated]", Group.HARDWARE),
    ] = None,
    budget: Annotated[
        str | None,
        Field("Wall time for everything, e.g. 15m. [15m; server 40m]", Group.RUN),
    ] = None,
    out: Annotated[Path, Field("Folder for traces, runs and the report.", Group.OUTPUT)] = Path(
        "rooftree-out/validate"
    ),
    resume: Annotated[bool, Field("Go on in a folder that holds runs.", Group.RUN)] = False,
    keep_disturbed: Annotated[
        bool,
        Field("Score runs that other processes disturbed, too.", Group.RUN),
    ] = False,
    engine: Annotated[
        str | None,
        Field(
            "Run this engine with its exported config instead: transformers, llama.cpp.",
            Group.HARDWARE,
        ),
    ] = None,
    engine_file: Annotated[
        Path | None,
        Field("With --engine: what its calibration on this machine wrote.", Group.HARDWARE),
    ] = None,
    draft: Annotated[
        str | None,
        Field(
            "Draft model: with --engine llama.cpp a .gguf file that was cut from the target.",
            Group.DRAFTING,
        ),
    ] = None,
    synthetic: Annotated[
        bool,
        Field("With --engine llama.cpp: a grid of stated acceptance, too.", Group.DRAFTING),
    ] = False,
    server: Annotated[
        str | None,
        Field(
            "Address of a server that somebody runs, and restarts with the files named.",
            Group.HARDWARE,
        ),
    ] = None,
    wait: Annotated[
        bool,
        Field("With --server: wait until it has been restarted, and go on.", Group.RUN),
    ] = False,
    draft_tokens: Annotated[
        str,
        Field("With --server or --engine transformers: K of exported drafts.", Group.DRAFTING),
    ] = "5",
    from_bench: Annotated[
        list[Path] | None,
        Field("Run nothing: put an engine's benchmark JSON beside predictions.", Group.RUN),
    ] = None,
    scenario: Annotated[
        str | None,
        Field(
            "With --from-bench: a JSON answer of `predict` to compare with.",
            Group.RUN,
            spelled="--predict",
        ),
    ] = None,
    replayed: Annotated[
        Path | None,
        Field(
            "Run nothing: score passes of random weights that a results folder holds.", Group.RUN
        ),
    ] = None,
    trace: Annotated[
        Path | None, Field("With --replayed: acceptance to walk.", Group.DRAFTING)
    ] = None,
    config: Config = None,
    dry_run: Annotated[
        bool,
        Field("With --config: say what would run at each batch, and run nothing.", Group.OUTPUT),
    ] = False,
    quick: Annotated[
        bool,
        Field(
            "Everything an owner of a GPU can learn in 25 minutes; --profile starts the fit.",
            Group.RUN,
        ),
    ] = False,
    method: Annotated[
        list[str] | None,
        Field(
            (
                "Refines masked blocks (fast-dllm), repeat: its rule and others on the small masked"
                " model."
            ),
            Group.DRAFTING,
        ),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run what `optimize` chooses and a spread of what it does not, for real, beside what was
    predicted.
    """
    from app.cli.verbs.machine.validate_served import torch_dtype
    from app.questions.places import require_folder
    from hardware_profiles.errors import InputError

    if from_bench and replayed:
        raise InputError("give either --from-bench or --replayed", key="--from-bench")
    if from_bench:
        from app.cli.verbs.machine.validate_bench import compare_bench

        compare_bench(from_bench, scenario, json=json, quiet=quiet)
        return
    if method:
        from app.cli.verbs.machine.validate_masked import validate_refining

        validate_refining(stated.given, out=out, json=json, quiet=quiet)
        return
    if quick:
        from app.cli.verbs.machine.validate_quick import validate_card

        validate_card(device, base=profile, resume=resume, out=out, json=json, quiet=quiet)
        return
    chosen = _chosen(config, profile, shape)
    if dry_run:
        _say_runs(chosen, whole_numbers(batch or "1,4", "--batch", least=1, most=64), json=json)
        return
    if chosen is not None:
        profile, shape = chosen.deployment.device, chosen.deployment.model
    require_folder(out)
    known = _fidelity(fidelity or ("measured" if server is None else "calibrated"))
    profile = _predicting(profile, results)
    if replayed is not None:
        _score_passes(replayed, profile, trace, out, json=json, quiet=quiet)
        return
    if server is not None or engine is not None:
        from app.cli.verbs.machine.validate_served import run_served

        run_served(
            server,
            engine,
            {
                "profile": profile,
                "model": model,
                "shape": shape,
                "prompts": prompts,
                "dtype": dtype,
                "batch": batch,
                "context": context,
                "threads": threads,
                "per_cell": per_cell,
                "rounds": rounds,
                "seed": seed,
                "new_tokens": new_tokens,
                "fidelity": known,
                "budget": budget,
                "out": out,
                "resume": resume,
                "keep_disturbed": keep_disturbed,
                "engine_file": engine_file,
                "drafters": drafter or [],
                "draft": draft,
                "draft_tokens": draft_tokens,
                "synthetic": synthetic,
                "wait": wait,
            },
            json=json,
            quiet=quiet,
        )
        return
    _run(
        {
            "profile": profile,
            "shipped_model": shape,
            "model_file": model,
            "prompts": prompts,
            "device": device,
            "threads": threads,
            "dtype": torch_dtype(dtype),
            "fidelity": known,
            "contexts": tuple(
                whole_numbers(context or "0,512,1024", "--context", least=0, most=1 << 20)
            ),
            "fitted_contexts": tuple(
                whole_numbers(fit_context, "--fit-context", least=1, most=1 << 20)
            ),
            "batches": tuple(whole_numbers(batch or "1,4", "--batch", least=1, most=64)),
            "per_cell": per_cell,
            "max_new_tokens": new_tokens or 32,
            "rounds": rounds or 4,
            "out": out,
            "resume": resume,
            "seed": seed,
            "keep_disturbed": keep_disturbed,
            "chosen": chosen,
        },
        drafter,
        budget or "15m",
        json=json,
        quiet=quiet,
    )


def _predicting(profile: str | None, results: Path | None) -> str:
    """The profile that predicts, which may then find measured passes that are not shipped."""
    from costmodel.passes.measured import add_results
    from hardware_profiles.errors import InputError

    if results is not None:
        add_results(results)
    if profile is None:
        rule = "name the profile that predicts; `rooftree calibrate` makes one of this machine"
        raise InputError(rule, key="--profile")
    return profile


def _score_passes(
    results: Path, profile: str, trace: Path | None, out: Path, *, json: bool, quiet: bool
) -> None:
    """Passes of random weights that a results folder holds, beside predictions."""
    from app.cli.verbs.machine.validate_report import leave_report
    from real_runs.validation.replayed import validate_replayed

    found = validate_replayed(results, profile=profile, trace=trace)
    leave_report(
        found.to_json(),
        out,
        json=json,
        quiet=quiet,
        inputs={"replayed": str(results), "profile": profile},
    )


def _run(
    asked: dict[str, Any], drafters: list[str] | None, budget: str, *, json: bool, quiet: bool
) -> None:
    from app.cli.progress import progress_line
    from app.cli.verbs.machine.campaign import seconds
    from app.cli.verbs.machine.validate_report import leave_report
    from real_runs.validation.validate import DRAFTERS, ValidateOptions
    from real_runs.validation.validate import validate as validated

    limit_s = seconds(budget, "--budget")
    names = tuple(drafters or DRAFTERS)
    _check_drafters(names)
    with progress_line(quiet) as tell:
        found = validated(ValidateOptions(**asked, drafters=names, budget_s=limit_s), tell=tell)
    # a report says what was asked, not where it lies
    inputs = {
        key: str(value) if isinstance(value, Path) else value
        for key, value in asked.items()
        if key != "out"
    }
    inputs["chosen"] = None if asked["chosen"] is None else asked["chosen"].to_json()
    inputs |= {"drafters": list(names), "budget_s": limit_s}
    leave_report(found.to_json(), asked["out"], json=json, quiet=quiet, inputs=inputs)


def _chosen(config: Path | None, profile: str | None, shape: str) -> "DecodingConfiguration | None":
    """The configuration of a file on the device profile that predicts; None without a file."""
    from dataclasses import replace

    from costmodel.architectures.library import load_model
    from costmodel.configuration.file import read_configuration
    from hardware_profiles.errors import InputError

    if config is None:
        return None
    chosen = read_configuration(config)
    named = load_model(chosen.deployment.model).name
    if named != load_model(shape).name:
        raise InputError(
            f"the configuration is for {named}; name it with --shape", key="--shape", value=shape
        )
    where = replace(chosen.deployment, device=profile or chosen.deployment.device, model=named)
    return replace(chosen, deployment=where)


def _say_runs(chosen: "DecodingConfiguration | None", batches: list[int], *, json: bool) -> None:
    """Which loop runs at every batch."""
    from app.render.json import print_json
    from app.render.text import say
    from hardware_profiles.errors import InputError
    from real_runs.validation.configurations import Configuration

    if chosen is None:
        raise InputError("--dry-run needs a --config")
    runs = [{"batch": batch, "runs": Configuration.of(chosen, batch).name} for batch in batches]
    if json:
        print_json({"inputs": {"configuration": chosen.to_json()}, "runs": runs})
    else:
        for each in runs:
            say(f"batch {each['batch']}: {each['runs']}")


def _check_drafters(names: tuple[str, ...]) -> None:
    from hardware_profiles.errors import UnknownNameError
    from real_runs.validation.validate import DRAFTERS

    for name in names:
        if name not in DRAFTERS:
            raise UnknownNameError("drafter", name, DRAFTERS, key="--drafter")


def _fidelity(name: str) -> "Fidelity":
    from hardware_profiles.errors import InputError

    if name == "measured":
        return "measured"
    if name == "calibrated":
        return "calibrated"
    raise InputError("must be measured or calibrated", key="--fidelity", value=name)
