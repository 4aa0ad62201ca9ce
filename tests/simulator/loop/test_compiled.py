"""Machine code that is kept never outlives the files that it was made from."""

import os
import subprocess
import sys
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest

from simulator import engine
from simulator.engine import simulate
from simulator.loop import compiled
from simulator.loop.compiled import Compiled, PlainWork, plain_rows, plain_tuple
from simulator.loop.iteration import begin
from simulator.loop.state import REQUEST, Prefixes, new_buffers, new_limits, new_replica

pytestmark = pytest.mark.heavy


def test_a_change_in_a_function_that_another_file_calls_is_noticed(tmp_path, root):
    """Two files of a small package: the caller's kept code is made anew when the callee changes."""
    package = tmp_path / "simulator" / "loop"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("")
    (package / "compiled.py").write_text(Path(compiled.__file__).read_text())
    head = "from simulator.loop.compiled import compiled\n"
    (package / "waiting.py").write_text(
        head
        + "from simulator.loop.tables import inner\n@compiled\ndef outer(x):\n    return inner(x)"
        " + 1\n"
    )
    code = "from simulator.loop.waiting import outer; print(outer.machine(1))"

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
    for seed in range(3):
        simulate(random_scenario(seed), machine=True)
    known = len(begin.machine.signatures)
    scenario = random_scenario(3)
    simulate(
        replace(
            scenario,
            workload=replace(scenario.workload, think_s=0, users=np.int32(3)),
            scheduler=replace(
                scenario.scheduler,
                swap_block_s=0,
                token_budget=np.int16(64),
                kv_blocks=np.int64(500),
                slo_ttft_s=9,
                chunked_prefill=np.bool_(True),
            ),
        ),
        machine=True,
    )
    assert len(begin.machine.signatures) == known == 1


def test_a_small_simulation_loads_no_compiler():
    """Of the whole command, model and device included."""
    words = (
        "simulate --model llama-3.1-8b --count 10 --prompt-tokens 100 --output-tokens 10 --rate 5"
        " --quiet"
    )
    code = (
        "import sys; from app.cli.main import main; status = main(sys.argv[1:]);found = {'numba',"
        " 'llvmlite', 'scipy', 'torch'} & set(sys.modules); print(sorted(found)); sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words.split()], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_views_read_and_write_the_arrays_they_stand_for(random_scenario):
    records = np.zeros(3, dtype=REQUEST)
    rows = plain_rows(records)
    rows[1].recent_accepted, rows[2].place, rows[2].ready_s = 0.1, 1 << 30, 0.3
    assert records["recent_accepted"][1] == rows[1].recent_accepted == np.float32(0.1)
    assert (
        records["place"].tolist() == [0, 0, 1 << 30]
        and records["ready_s"][2] == rows[2].ready_s == 0.3
    )
    limits = new_limits(
        random_scenario(0).workload, random_scenario(0).scheduler, lag=1, lookahead=0, users=True
    )
    buffers = new_buffers(limits, Prefixes(*[np.zeros(0, np.int32)] * 3, 1, 5), 4)
    view = plain_tuple(buffers)
    view.over[3] += 2
    view.chunks[1, 2] = 7
    view.blocks[2].references = 3
    assert (buffers.over[3], buffers.chunks[1, 2], type(view.over[3])) == (2, 7, int)
    assert buffers.blocks["references"].tolist() == [0, 0, 3, 0, 0, 0]
    record, plain = (new_replica(limits, machine=machine) for machine in (True, False))
    assert astuple(plain) == record.item() and plain.unused_blocks == limits.kv_blocks
    assert plain_tuple(limits) == limits


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


def test_machine_code_is_loaded_once_it_pays(random_scenario, monkeypatch):
    small = random_scenario(0).workload
    monkeypatch.setattr(engine, "advance", Compiled(engine.advance.plain))
    monkeypatch.setattr(engine, "_plain_work", PlainWork(10_000))
    assert engine._pays_to_load(replace(small, output_tokens=np.full(small.requests, 20_000)))
    choices = [engine._pays_to_load(small) for _ in range(2000)]
    assert not choices[0] and choices[-1]  # many small ones are as much work as a large one
    assert choices == sorted(choices)
    monkeypatch.setattr(engine, "_plain_work", PlainWork(10_000))
    assert engine.advance.machine is not None and engine._pays_to_load(
        small
    )  # at hand, it costs nothing
