"""`predict --table`: times to first and per output token of every row of a table of serving runs."""

from app.answers.predict.rows import ServedRow, ServedRows
from app.questions.field import refuse
from app.questions.predict import PredictQuestion
from app.questions.record_files import read_records
from app.questions.resolve.launches import with_launches
from simulator.closed_loop.table_rows import RowAnswer, answer_rows

_ROW_OPTIONS = dict.fromkeys(
    (
        "model",
        "trace",
        "acceptance",
        "tokens_per_step",
        "drafter",
        "tree",
        "overrides",
        "shape",
        "stop",
        "slo_ttft",
        "slo_tpot",
        "slo_e2e",
        "transform",
    ),
    "does not go with --table, whose rows say it themselves",
)


def answer_table(question: PredictQuestion) -> ServedRows:
    """Times to first and per output token of every row of a table of serving runs.

    Raises:
        InputError: the file cannot be read, lacks a column, or an option says what its rows say.
    """
    refuse(question, _ROW_OPTIONS)
    table = question.table
    assert table is not None
    records = with_launches(read_records(table), question.launch, file=str(table))
    answered = answer_rows(records, file=str(table), seed=question.seed)
    return ServedRows(
        inputs={"table": str(table), "launch": question.launch, "seed": question.seed},
        rows=[served_row(row) for row in answered],
    )


def served_row(row: RowAnswer) -> ServedRow:
    """A row of the table with its times."""
    return ServedRow(
        id=row.id,
        ttft_ms=row.ttft_ms,
        tpot_ms=row.tpot_ms,
        ttft_ms_interval=row.ttft_ms_interval,
        tpot_ms_interval=row.tpot_ms_interval,
        reason=row.reason,
    )
