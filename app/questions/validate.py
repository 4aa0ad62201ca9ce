"""What does `validate` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import Config, Seed
from app.questions.groups import ScreenOptions
from app.questions.values import Time, WholeNumbers


@dataclass(frozen=True, kw_only=True)
class ValidatedOptions:
    """What is validated: a model, its prompts and the ways in which it decodes."""

    model: Annotated[
        Path | None,
        Field("A .gguf file or Hugging Face folder; default: SmolLM2-135M.", Group.WORKLOAD),
    ] = None
    shape: Annotated[str, Field("Name that the cost model knows the model by.", Group.DRAFTING)] = (
        "smollm2-135m"
    )
    prompts: Annotated[
        Path | None,
        Field("Prompt file with the kinds of the shipped one.", Group.WORKLOAD),
    ] = None
    context: Annotated[
        tuple[int, ...] | None,
        Field(
            (
                "Lengths that prompts are filled up to; 0: as they are. [0,512,1024; server"
                " 256,1024,2048]"
            ),
            Group.WORKLOAD,
            reads=WholeNumbers(least=0, most=1 << 20),
        ),
    ] = None
    fit_context: Annotated[
        tuple[int, ...],
        Field(
            "Lengths that loop costs are fitted on; none of them is scored.",
            Group.WORKLOAD,
            reads=WholeNumbers(least=1, most=1 << 20),
        ),
    ] = (256, 704)
    batch: Annotated[
        tuple[int, ...] | None,
        Field(
            "Requests that run together, a server's slots. [1,4; server 1,2,4]",
            Group.WORKLOAD,
            reads=WholeNumbers(least=1, most=1024),
        ),
    ] = None
    new_tokens: Annotated[
        int | None,
        Field("Longest answer. [32; server 64]", Group.WORKLOAD, least=4, most=4096),
    ] = None
    drafter: Annotated[
        list[str] | None,
        Field("Repeat for several [all]; with --server one, METHOD:SOURCE.", Group.DRAFTING),
    ] = None
    draft: Annotated[
        str | None,
        Field(
            "Draft model: with --engine llama.cpp a .gguf file that was cut from the target.",
            Group.DRAFTING,
        ),
    ] = None
    draft_tokens: Annotated[
        tuple[int, ...],
        Field(
            "With --server or --engine transformers: K of exported drafts.",
            Group.DRAFTING,
            reads=WholeNumbers(least=1, most=64),
        ),
    ] = (5,)
    synthetic: Annotated[
        bool,
        Field("With --engine llama.cpp: a grid of stated acceptance, too.", Group.DRAFTING),
    ] = False
    method: Annotated[
        list[str] | None,
        Field(
            (
                "Refines masked blocks (fast-dllm), repeat: its rule and others on the small masked"
                " model."
            ),
            Group.DRAFTING,
        ),
    ] = None
    config: Config = None
    per_cell: Annotated[
        int,
        Field("Configurations beside plain decoding and the choice.", Group.RUN, least=0, most=64),
    ] = 4


@dataclass(frozen=True, kw_only=True)
class MeasuringOptions:
    """Where it runs: a device, an engine that is started there, or a server that somebody runs."""

    device: Annotated[str, Field("Torch device.", Group.HARDWARE)] = "cpu"
    dtype: Annotated[
        str | None,
        Field(
            "fp32 or bf16 [fp32]; of a server's weights any format [its checkpoint's].",
            Group.FORMATS,
        ),
    ] = None
    threads: Annotated[
        int, Field("CPU threads: those of the profile.", Group.HARDWARE, least=1)
    ] = 1
    engine: Annotated[
        str | None,
        Field(
            "Run this engine with its exported config instead: transformers, llama.cpp.",
            Group.HARDWARE,
        ),
    ] = None
    engine_file: Annotated[
        Path | None,
        Field("With --engine: what its calibration on this machine wrote.", Group.HARDWARE),
    ] = None
    server: Annotated[
        str | None,
        Field(
            "Address of a server that somebody runs, and restarts with the files named.",
            Group.HARDWARE,
        ),
    ] = None
    tp: Annotated[
        int,
        Field(
            "With --server: devices of the profile that share its model.", Group.HARDWARE, least=1
        ),
    ] = 1
    wait: Annotated[
        bool,
        Field("With --server: wait until it has been restarted, and go on.", Group.RUN),
    ] = False
    quick: Annotated[
        bool,
        Field(
            "Time a GPU, fit its profile (--profile starts it) and score predictions, in 25 minutes.",
            Group.RUN,
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class DurationOptions:
    """How long it runs, and which runs count."""

    rounds: Annotated[
        int | None,
        Field("Times that everything is run. [4; server 3]", Group.RUN, least=1, most=100),
    ] = None
    budget_s: Annotated[
        float | None,
        Field(
            "Wall time for everything, e.g. 15m. [15m; server 40m]",
            Group.RUN,
            spelled="--budget",
            reads=Time(),
        ),
    ] = None
    resume: Annotated[bool, Field("Go on in a folder that holds runs.", Group.RUN)] = False
    keep_disturbed: Annotated[
        bool,
        Field("Score runs that other processes disturbed, too.", Group.RUN),
    ] = False


@dataclass(frozen=True, kw_only=True)
class PredictingOptions:
    """Against what the runs stand: predictions, or measurements that are there already."""

    profile: Annotated[
        str | None,
        Field("Device profile that predicts: name or .toml file.", Group.HARDWARE),
    ] = None
    results: Annotated[
        Path | None,
        Field("Folder with measured passes that are not shipped.", Group.HARDWARE),
    ] = None
    fidelity: Annotated[
        str | None,
        Field(
            "measured or calibrated. [measured; with --server and --trace calibrated]",
            Group.HARDWARE,
        ),
    ] = None
    from_bench: Annotated[
        list[Path] | None,
        Field("Run nothing: put an engine's benchmark JSON beside predictions.", Group.RUN),
    ] = None
    scenario: Annotated[
        str | None,
        Field(
            "With --from-bench: a JSON answer of `predict` to compare with.",
            Group.RUN,
            spelled="--predict",
        ),
    ] = None
    replayed: Annotated[
        Path | None,
        Field(
            "Run nothing: score passes of random weights that a results folder holds.", Group.RUN
        ),
    ] = None
    trace: Annotated[
        Path | None,
        Field(
            (
                "Run nothing: the timed steps of a recording, or of a campaign's results folder;"
                " with --replayed: acceptance to walk."
            ),
            Group.DRAFTING,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ValidateQuestion(
    ScreenOptions, PredictingOptions, DurationOptions, MeasuringOptions, ValidatedOptions, Question
):
    """Run configurations for real, beside their predictions.

    What `optimize` chooses is run, and a spread of what it does not choose.
    """

    answered_by: ClassVar[str] = "app.answers.validation.validate"
    begins: ClassVar[tuple[str, ...]] = (
        "model",
        "device",
        "drafter",
        "batch",
        "engine",
        "server",
        "quick",
        "budget_s",
        "profile",
        "out",
        "resume",
    )
    out: Annotated[Path, Field("Folder for traces, runs and the report.", Group.OUTPUT)] = Path(
        "rooftree-out/validate"
    )
    dry_run: Annotated[
        bool,
        Field("With --config: say what would run at each batch, and run nothing.", Group.OUTPUT),
    ] = False
    seed: Seed = 0
