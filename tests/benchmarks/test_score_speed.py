"""Rows of serving runs a CPU second, and against an event for every iteration of every worker."""

import os
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest

from simulator.closed_loop import pools, serve
from simulator.closed_loop.table_rows import answer_rows
from tests.simulator.closed_loop.test_events import ROWS, by_events

TABLES = ("inferencemax_raw_dev", "silicon_sample", "silicon_sample_2")
_COMMAND = "import sys; from app.cli.main import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.benchmark(group="score")
def test_prompts_apart_against_an_event_per_iteration(benchmark, cpu_s, monkeypatch):
    rows = [{"id": str(index), **row} for index, row in enumerate(ROWS)]
    direct_s = cpu_s(lambda: answer_rows(rows, file="rows"), rounds=3)
    direct = benchmark.pedantic(lambda: answer_rows(rows, file="rows"), rounds=1)
    for module in (pools, serve):
        monkeypatch.setattr(module, "simulate", by_events)
    began = time.process_time()
    events = answer_rows(rows, file="rows")
    events_s = time.process_time() - began
    print(f"\n{direct_s:.3f} CPU s, {direct_s / events_s:.4f} of an event an iteration")
    benchmark.extra_info.update(seconds=direct_s, ratio_to_events=direct_s / events_s)
    for answer, plain in zip(direct, events, strict=True):
        assert answer.ttft_ms == pytest.approx(plain.ttft_ms, rel=0.01)
        assert answer.tpot_ms == pytest.approx(plain.tpot_ms, rel=0.01)


@pytest.mark.benchmark(group="score")
def test_score_of_the_development_tables(benchmark, root, reference_data, aim):
    """The whole command, its start, the tables of pass times and the intervals included; machine
    code is at hand or is compiled here, which takes about half a minute."""
    tables = [reference_data / "serving" / f"{name}.parquet" for name in TABLES]
    rows = sum(pq.read_metadata(table).num_rows for table in tables)

    def command():
        subprocess.run(
            [sys.executable, "-c", _COMMAND, "score", *map(str, tables), "--quiet"],
            cwd=root,
            stdout=subprocess.DEVNULL,
            check=True,
        )

    before = os.times()
    benchmark.pedantic(command, rounds=1)
    after = os.times()
    seconds = sum(
        getattr(after, name) - getattr(before, name)
        for name in ("children_user", "children_system")
    )
    print(f"\n{rows:,} rows in {seconds:.0f} CPU s")
    benchmark.extra_info.update(seconds=seconds)
    aim("rows per CPU second", rows / seconds, least=20.0)
