"""How does a sweep become one file, whatever interrupts it?

Shards are files of their own in a folder beside the result, and are joined in their order when all
are there. Leaves out what a shard holds (`evaluate`) and the processes that compute them
(`workers`).
"""

import csv
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.answers.sweep.cells import Cells
from app.answers.sweep.cluster import computed_on_ray
from app.answers.sweep.evaluate import SweepEvaluation
from app.answers.sweep.file import Sweep, SweepTask
from app.answers.sweep.table import COLUMNS, SCHEMA_VERSION, schema
from app.answers.sweep.worker import PART
from app.answers.sweep.workers import computed_by_processes, cores
from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import make_folder, whole_file
from traces.storage.parquet_files import ROW_GROUP_ROWS, opened_parquet, write_parquet

BEGUN = "sweep.json"
DIGEST = "rooftree.sweep.digest"
MOST_REASONS = 12
CELLS_A_PROCESS = 256
LOADS_A_PROCESS = 32
"""Cells, and cells under a load, that are computed here in about the time in which a process starts."""
Report = Callable[[int, int], None]


@dataclass(kw_only=True)
class SweepSummary:
    """What a sweep found.

    Args:
        cells: rows of the file.
        feasible: those that fit and have an answer.
        topologies: how many cells `off`, `chain`, `tree` or `dynamic_tree` is best in.
        reasons: why cells have no answer, the first few of them, with how many have the very same.
        computed: cells that this call computed; the others lay there.
        workers: processes that computed them on this machine.
    """

    cells: int = 0
    feasible: int = 0
    topologies: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    computed: int = 0
    workers: int = 1

    def add(self, part: pa.Table) -> None:
        """Count the rows of a part."""
        self.cells += part.num_rows
        for topology, reason in zip(
            part["topology"].to_pylist(), part["reason"].to_pylist(), strict=True
        ):
            if reason is None:
                self.feasible += 1
                self.topologies[topology] += 1
            elif reason in self.reasons or len(self.reasons) < MOST_REASONS:
                self.reasons[reason] += 1


def run_sweep(
    sweep: Sweep,
    out: Path,
    *,
    csv_file: Path | None = None,
    workers: int | None = None,
    seed: int = 0,
    resume: bool = False,
    ray: str | None = None,
    report: Report = lambda done, total: None,
) -> SweepSummary:
    """Answer every cell of a sweep, and write one row a cell.

    Args:
        sweep: which cells.
        out: the Parquet file; `OUT.parts` beside it holds what is finished until all is.
        csv_file: the same rows as comma-separated values; None: not written.
        workers: processes; None: as many as there are processors. One computes in this process.
        seed: of all draws.
        resume: go on with what lies in `OUT.parts`.
        ray: address of a Ray cluster that computes instead of processes here; None: none does.
        report: called with the cells that are done and all of them.

    Raises:
        InputError: parts of an earlier run lie there and `resume` is not asked for, or they are
            those of another sweep; or a place that cannot be written.
    """
    from real_runs.campaigns.process import locked

    cells, digest = Cells(sweep), sweep.digest(seed)
    parts = out.with_name(f"{out.name}.parts")
    if resume and not parts.exists() and _is_whole(out, digest):
        summary = SweepSummary(workers=0)
        _join(_tables([out]), schema(_metadata(sweep, digest, seed)), None, csv_file, summary)
        return summary
    _begin(parts, digest, resume=resume)
    with locked(parts):
        files = [parts / PART.format(shard) for shard in range(cells.shards)]
        left = [shard for shard, file in enumerate(files) if not _holds(file, cells.size(shard))]
        waiting = sum(map(cells.size, left))
        enough = LOADS_A_PROCESS if sweep.lists.is_loaded else CELLS_A_PROCESS
        summary = SweepSummary(
            workers=max(min(workers or min(cores(), waiting // enough), len(left)), 1)
        )
        done = cells.count - waiting
        report(done, cells.count)
        shards = _computed(sweep, seed, parts, left, summary.workers)
        if ray is not None and left:
            task = SweepTask(lists=sweep.lists, folder=sweep.folder, seed=seed, digest=digest)
            shards, summary.workers = computed_on_ray(ray, task, left, parts), 0
        for shard in shards:
            summary.computed += cells.size(shard)
            report(done + summary.computed, cells.count)
        _join(_tables(files), schema(_metadata(sweep, digest, seed)), out, csv_file, summary)
        shutil.rmtree(parts)
    return summary


def _computed(
    sweep: Sweep, seed: int, parts: Path, left: Sequence[int], workers: int
) -> Iterator[int]:
    """Shards as their files are finished."""
    if workers > 1:
        task = SweepTask(lists=sweep.lists, folder=sweep.folder, seed=seed, parts=parts)
        yield from computed_by_processes(task, left, workers)
        return
    evaluation = SweepEvaluation(sweep, seed)
    for shard in left:
        write_parquet(evaluation.shard(shard), parts / PART.format(shard))
        yield shard


def _begin(parts: Path, digest: str, *, resume: bool) -> None:
    """Make the folder of the parts, or check that those in it are of this sweep."""
    begun = parts / BEGUN
    if begun.exists():
        if not resume:
            raise InputError(
                "holds an unfinished sweep: pass --resume to go on, or remove it", file=parts
            )
        try:
            begun_digest = json.loads(begun.read_text(encoding="utf-8"))["digest"]
        except (OSError, ValueError, KeyError, TypeError):
            begun_digest = None
        if begun_digest != digest:
            rule = (
                "was begun with other lists, files, seed or release of rooftree; remove it, or name"
                " another --out"
            )
            raise InputError(rule, file=parts, key="--resume")
        return
    make_folder(parts)
    if any(parts.iterdir()):
        raise InputError(
            "holds files that are no sweep's; remove it, or name another --out", file=parts
        )
    with whole_file(begun, synced=True) as part:
        part.write_text(json.dumps({"digest": digest}), encoding="utf-8")


def _holds(file: Path, rows: int) -> bool:
    """Whether a part is there, whole and of so many rows."""
    if not file.exists():
        return False
    try:
        with opened_parquet(file) as table:
            return bool(table.metadata.num_rows == rows)
    except InputError:
        return False


def _is_whole(out: Path, digest: str) -> bool:
    """Whether the result of this very sweep is there already."""
    if not out.is_file():
        return False
    try:
        with opened_parquet(out) as table:
            return bool((table.metadata.metadata or {}).get(DIGEST.encode()) == digest.encode())
    except InputError:
        return False


def _metadata(sweep: Sweep, digest: str, seed: int) -> dict[str, str]:
    return {
        "rooftree.sweep.schema": str(SCHEMA_VERSION),
        DIGEST: digest,
        "rooftree.sweep.seed": str(seed),
        "rooftree.sweep.lists": sweep.lists.model_dump_json(),
    }


def _tables(files: Sequence[Path]) -> Iterator[pa.Table]:
    """The rows of files, some thousands at a time."""
    for file in files:
        with opened_parquet(file) as rows:
            for batch in rows.iter_batches(batch_size=ROW_GROUP_ROWS):
                yield pa.Table.from_batches([batch])


def _join(
    tables: Iterator[pa.Table],
    form: pa.Schema,
    out: Path | None,
    csv_file: Path | None,
    summary: SweepSummary,
) -> None:
    """Write rows as one Parquet file and as comma-separated values, and count them; only some
    thousands are held.
    """
    with ExitStack() as stack:
        writer: pq.ParquetWriter | None = None
        if out is not None:
            part = stack.enter_context(whole_file(out, synced=True))
            writer = stack.enter_context(
                pq.ParquetWriter(part, form, compression="zstd", write_page_checksum=True)
            )
        values: Any = None
        if csv_file is not None:
            make_folder(csv_file.parent)
            text = stack.enter_context(whole_file(csv_file))
            values = csv.writer(
                stack.enter_context(text.open("w", encoding="utf-8", newline="")),
                lineterminator="\n",
            )
            values.writerow(COLUMNS)
        waiting: list[pa.Table] = []
        for table in tables:
            summary.add(table)
            if values is not None:
                values.writerows(zip(*(table[name].to_pylist() for name in COLUMNS), strict=True))
            waiting.append(table)
            if sum(block.num_rows for block in waiting) >= ROW_GROUP_ROWS:
                waiting = _written(writer, waiting, form)
        _written(writer, waiting, form)


def _written(
    writer: pq.ParquetWriter | None, waiting: list[pa.Table], form: pa.Schema
) -> list[pa.Table]:
    """Write the waiting rows as one row group; none wait then."""
    if writer is not None and waiting:
        writer.write_table(
            pa.concat_tables(waiting).replace_schema_metadata(form.metadata).combine_chunks()
        )
    return []
