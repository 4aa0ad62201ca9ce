"""`validate --engine transformers`: the exported config in the engine itself, beside what was
predicted.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.answers.progress import progress_line
from app.answers.validation.against import Against, torch_dtype
from app.answers.validation.rows import report_inputs
from app.exporters.registry import export
from app.exporters.transformers import TARGET_FILE
from app.questions.validate import ValidateQuestion
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from real_runs.validation.engines.assisted import AssistedPoint
from real_runs.validation.engines.assisted_setup import run_assisted

KINDS = {"overlap": ("summarising", "code editing"), "ordinary": ("chat", "reasoning")}
FITTED = ("translation", "code completion")


@dataclass(frozen=True, kw_only=True, slots=True)
class LookupRow(Row):
    """Prompt lookup on prompts of a kind."""

    kind: Annotated[str, Column("Kind of the prompts.", "prompts")]
    prompts: Annotated[int, Column("How many.", "number")]
    draft_tokens: Annotated[int, Column("Draft tokens K.", "K")]
    tokens_per_step: Annotated[float, Column("Emitted per step.", "tokens/step", decimals=2)]
    predicted_tokens_per_step: Annotated[
        float, Column("What was predicted.", "predicted", decimals=2)
    ]
    plain_tokens_per_s: Annotated[float, Column("Without lookup.", "plain tokens/s", decimals=1)]
    tokens_per_s: Annotated[float, Column("With it.", "with lookup", decimals=1)]
    speedup: Annotated[float, Column("Against no speculation.", decimals=2)]
    predicted_speedup: Annotated[float, Column("What was predicted.", "predicted", decimals=2)]
    error: Annotated[str, Column("Predicted / measured - 1.")]


@dataclass(frozen=True, kw_only=True)
class TransformersRuns(Answer):
    """The answer of `validate --engine transformers`.

    Attributes:
        generation_config: as it was exported and run.
        points: a kind of prompts each.
        out: folder of the file.
    """

    name: ClassVar[str] = "transformers"
    unwritten: ClassVar[tuple[str, ...]] = ("out",)
    generation_config: Mapping[str, Any]
    points: Sequence[AssistedPoint]
    out: Path

    @property
    def own_rows(self) -> Sequence[AssistedPoint]:
        """The points."""
        return self.points

    def shown(self) -> Iterator[Table | str]:
        """The points, and where the file lies."""
        yield Table(
            title="prompt lookup in Transformers, exported config",
            rows=[_row(point) for point in self.points],
            columns=[
                "kind",
                "prompts",
                "draft_tokens",
                "tokens_per_step",
                "predicted_tokens_per_step",
                "plain_tokens_per_s",
                "tokens_per_s",
                "speedup",
                "predicted_speedup",
                "error",
            ],
        )
        yield f"report in {self.out / 'transformers.json'}"


def validate_transformers(question: ValidateQuestion, against: Against) -> TransformersRuns:
    """Export prompt lookup for Transformers and run it there.

    Raises:
        InputError: a model that Transformers' Llama does not run, or options that do not fit.
    """
    draft_tokens = max(question.draft_tokens)
    dtype, new_tokens = torch_dtype(question.dtype), question.new_tokens or 32
    rounds = question.rounds or 4
    chosen = DecodingConfiguration(
        deployment=DeploymentNames(model=question.shape),
        method="n-gram",
        draft_tokens=draft_tokens,
        ngram_max=3,
    )
    config: dict[str, Any] = json.loads(export(chosen, "transformers").files[TARGET_FILE])
    with progress_line(question.quiet) as tell:
        points = run_assisted(
            profile=against.profile,
            model_file=question.model,
            shipped_model=question.shape,
            dtype=dtype,
            threads=question.threads,
            fidelity=against.fidelity,
            config=config,
            kinds=KINDS,
            fitted_kinds=FITTED,
            new_tokens=new_tokens,
            rounds=rounds,
            keep_disturbed=question.keep_disturbed,
            tell=tell,
        )
    return TransformersRuns(
        inputs=report_inputs(
            question,
            dtype=dtype,
            fidelity=against.fidelity,
            draft_tokens=draft_tokens,
            new_tokens=new_tokens,
            rounds=rounds,
        ),
        generation_config=config,
        points=points,
        out=question.out,
    )


def _row(point: AssistedPoint) -> LookupRow:
    return LookupRow(
        kind=point.kind,
        prompts=point.prompts,
        draft_tokens=point.draft_tokens,
        tokens_per_step=point.tokens_per_step,
        predicted_tokens_per_step=point.predicted_tokens_per_step,
        plain_tokens_per_s=point.plain_tokens_per_s,
        tokens_per_s=point.tokens_per_s,
        speedup=point.speedup,
        predicted_speedup=point.predicted_speedup,
        error=f"{point.error_ratio:+.1%}",
    )
