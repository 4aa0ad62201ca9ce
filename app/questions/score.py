"""What does `score` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import Launch, Seed
from app.questions.groups import OutputOptions
from real_runs.published_runs import AS_PUBLISHED


@dataclass(frozen=True, kw_only=True)
class ScoreQuestion(OutputOptions, Question):
    """Predict every row of measured runs, and score the errors.

    Errors are shown by slices of the rows and by the parts of a prediction that cause them.

    A measurement that stands in several rows counts once: those of equal users and times, or with
    the same `measurement`.
    """

    answered_by: ClassVar[str] = "app.answers.scoring.score"
    tables: Annotated[
        list[Path],
        Field(
            (
                "Measured runs (Parquet, CSV or JSON Lines): backend, model_path, system, isl, osl,"
                " concurrency and "
                "ttft_ms, ttft_median_ms or tpot_ms (also measured_..., silicon_...); a median"
                " counts before a mean. Further columns as in `predict --table`; records of"
                " InferenceX are read as they are."
            ),
            Group.WORKLOAD,
            argument=True,
        ),
    ]
    launch: Launch = AS_PUBLISHED
    baseline: Annotated[
        Path | None,
        Field(
            (
                "What stands beside: an earlier --json or --out of this verb or of `predict"
                " --table`, or another "
                "tool's table of id, ttft_ms and tpot_ms."
            ),
            Group.SEARCH,
        ),
    ] = None
    plot: Annotated[
        Path | None,
        Field(
            "HTML page: predicted against measured times by engine.",
            Group.OUTPUT,
            also="--html",
            place="file",
        ),
    ] = None
    leave_out: Annotated[
        str,
        Field(
            (
                "model, device or family: constants that were fitted to serving runs are fitted"
                " again to the other models or devices of the tables, or to the other half of their"
                " families (model, device, engine), before each is answered (minutes); as shipped"
                " stands beside. With family, the other half gives the intervals' widths too."
            ),
            Group.SEARCH,
        ),
    ] = ""
    seed: Seed = 0
