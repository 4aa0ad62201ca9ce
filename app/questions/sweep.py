"""What does `sweep` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import Seed
from app.questions.groups import OutputOptions


@dataclass(frozen=True, kw_only=True)
class SweepQuestion(OutputOptions, Question):
    """Answer every combination of a file's lists.

    A cell has the best draft and its speed with intervals, or the reason why there is none. Under a
    load it has the draft that serves it best, with the times, tokens and goodput of a simulation.
    """

    answered_by: ClassVar[str] = "app.answers.sweep.sweep"
    file: Annotated[
        Path | None,
        Field(
            (
                "YAML of lists: models, devices, engines, tensor_parallel, drafters, traces,"
                " batches, contexts; or under a load rates or users in the place of the last two,"
                " with prompt_tokens, output_tokens, and limits slo_ttft, slo_tpot in ms."
            ),
            Group.WORKLOAD,
            argument=True,
        ),
    ] = None
    out: Annotated[
        Path | None, Field("Parquet file, one row a cell.", Group.OUTPUT, place="file")
    ] = None
    resume: Annotated[
        bool,
        Field("Go on with an unfinished sweep of the same file and --out.", Group.RUN),
    ] = False
    workers: Annotated[
        int | None,
        Field("Processes; default: one for each processor core.", Group.RUN, least=1, most=1024),
    ] = None
    ray: Annotated[
        str | None,
        Field(
            "Compute on the nodes of a Ray cluster, host:port or auto (needs the extra `ray`).",
            Group.RUN,
            placeholder="ADDRESS",
        ),
    ] = None
    compare: Annotated[
        tuple[Path, Path] | None,
        Field(
            "Instead: which cells moved between two results.", Group.SEARCH, placeholder="OLD NEW"
        ),
    ] = None
    threshold: Annotated[
        float,
        Field(
            "Of --compare: a cell moves where a rate changes by more than this share.",
            Group.SEARCH,
        ),
    ] = 0.01
    seed: Seed = 0
