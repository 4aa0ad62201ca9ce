"""Machine code that is kept never outlives the files that it was made from."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simulator.engine import simulate
from simulator.loop import compiled
from simulator.loop.compiled import laid_out
from simulator.loop.entries import serve
from simulator.loop.fleet import new_fleet
from simulator.loop.state import REQUEST, Replica, new_limits, new_prefixes

pytestmark = pytest.mark.heavy


def test_a_change_in_a_function_that_another_file_calls_is_noticed(tmp_path, root):
    """Two files of a small package: the caller's kept code is made anew when the callee changes."""
    package = tmp_path / "simulator" / "loop"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("")
    (package / "compiled.py").write_text(Path(compiled.__file__).read_text())
    head = "from simulator.loop.compiled import compiled, entry\n"
    (package / "waiting.py").write_text(
        head + "from simulator.loop.tables import inner\n@entry\ndef outer(x):\n    return inner(x)"
        " + 1\n"
    )
    code = "from simulator.loop.waiting import outer; print(outer(1))"

    path = os.pathsep.join([str(tmp_path), str(root)])

    def answer():
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            env={
                "PYTHONPATH": path,
                "PATH": "/usr/bin:/bin",
                "NUMBA_CACHE_DIR": str(tmp_path / "kept"),
            },
        )
        return done.stdout.strip()

    for factor in (10, 200):
        (package / "tables.py").write_text(
            head + f"@compiled\ndef inner(x):\n    return x * {factor}\n"
        )
        assert answer() == answer() == str(factor + 1)


def test_no_option_makes_the_loop_compile_again(random_scenario):
    """Whole numbers for seconds, numpy's numbers for Python's: the compiled loop is the same."""
    scenario = random_scenario(3)
    simulate(scenario)
    known = len(serve.signatures)
    simulate(
        replace(
            scenario,
            workload=replace(scenario.workload, think_s=0.0, users=np.int32(3)),
            scheduler=replace(
                scenario.scheduler,
                swap_block_s=0,
                token_budget=np.int16(64),
                kv_blocks=np.int64(500),
                slo_ttft_s=9,
                chunked_prefill=np.bool_(True),
            ),
        ),
    )
    assert len(serve.signatures) == known > 0


def test_tables_lie_end_to_end_where_the_record_points(random_scenario, tabled_timer):
    tables = tabled_timer.made
    record, numbers = laid_out(tables)
    for name, value in tables._asdict().items():
        if not isinstance(value, np.ndarray):
            assert getattr(record, name) == value
            continue
        place = record[name]
        shape = (place["length"], place["width"], place["depth"])
        assert shape == (*value.shape, *[1] * (3 - value.ndim))
        kept = numbers[place["first"] : place["first"] + value.size]
        np.testing.assert_array_equal(kept, value.reshape(-1))


def test_an_engine_begins_as_its_record_says(random_scenario):
    scenario = random_scenario(0)
    limits = new_limits(scenario.workload, scenario.scheduler, lag=1, lookahead=0)
    prefixes = new_prefixes(scenario.workload, scenario.scheduler)
    replica = new_fleet(limits, prefixes, 2, 3).replicas[1]
    begins = Replica(unused_blocks=limits.kv_blocks)
    for name in replica.dtype.names:
        np.testing.assert_array_equal(getattr(replica, name), getattr(begins, name))


def test_what_every_step_touches_of_a_request_is_one_line_of_a_cache():
    """Reading two lines for it, or three because the record's size is odd, takes as long as the
    rest of a step."""
    assert REQUEST.itemsize == 128
    rare = {
        "sent_s",
        "ready_s",
        "scheduled_s",
        "first_s",
        "last_s",
        "key",
        "probability",
        "granted",
        "slot",
    }
    assert all((REQUEST.fields[name][1] >= 64) == (name in rare) for name in REQUEST.names)
