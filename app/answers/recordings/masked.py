"""`record --masked`: train a small masked-diffusion model and record how sure it is, by policy."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from app.answers.answer import Answer, Table
from app.answers.recordings.policies import RecordedPolicyRow, compared_policies, policy_table
from app.answers.recordings.stages import recording_bars
from app.questions.field import inputs_of
from app.questions.record import RecordQuestion
from real_runs.masked.training import MaskedRecipe
from real_runs.recording.masked import MaskedRecording, record_masked


@dataclass(frozen=True, kw_only=True)
class MaskedRecordings(Answer):
    """The answer of `record --masked`: the traces, which lie in the folder, and their policies."""

    name: ClassVar[str] = ""
    is_written: ClassVar[bool] = True
    traces: Sequence[Path]
    policies: Sequence[RecordedPolicyRow]

    @property
    def own_rows(self) -> Sequence[RecordedPolicyRow]:
        """The policies."""
        return self.policies

    def shown(self) -> Iterator[Table | str]:
        """The policies, and how a trace is looked at."""
        yield policy_table(self.policies)
        yield "inspect one with: rooftree traces inspect FILE"


def record_masked_model(question: RecordQuestion) -> MaskedRecordings:
    """Train the model where that was not done, and record it."""
    recording = MaskedRecording(
        out=question.out, recipe=MaskedRecipe(seed=question.seed), resume=question.resume
    )
    with recording_bars(question.quiet) as advance:
        files = record_masked(recording, progress=advance)
    return MaskedRecordings(
        inputs=inputs_of(question), traces=files, policies=compared_policies(files, seed=0)
    )
