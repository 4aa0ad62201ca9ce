"""Machine code that is kept never outlives the files that it was made from."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

import simulator
from simulator import compiled
from simulator.engine import simulate
from simulator.iteration import begin


def test_every_file_with_compiled_functions_is_watched():
    folder = Path(simulator.__file__).parent
    using = {path.stem for path in folder.glob("*.py") if "@compiled" in path.read_text()}
    assert using and using <= set(compiled._FILES)
    assert {name for name, _, _ in compiled._STAMP} == set(compiled._FILES)


def test_a_change_in_a_function_that_another_file_calls_is_noticed(tmp_path):
    """Two files of a small package: the caller's kept code is made anew when the callee changes."""
    package = tmp_path / "simulator"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "compiled.py").write_text(Path(compiled.__file__).read_text())
    head = "from simulator.compiled import compiled\n"
    (package / "waiting.py").write_text(
        head + "from simulator.tables import inner\n@compiled\ndef outer(x):\n    return inner(x) + 1\n"
    )
    code = "from simulator.waiting import outer; print(outer(1))"

    def answer():
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True,
            env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin", "NUMBA_CACHE_DIR": str(tmp_path / "kept")},
        )  # fmt: skip
        return done.stdout.strip()

    for factor in (10, 200):
        (package / "tables.py").write_text(head + f"@compiled\ndef inner(x):\n    return x * {factor}\n")
        assert answer() == answer() == str(factor + 1)


def test_no_option_makes_the_loop_compile_again(random_scenario):
    """Whole numbers for seconds, numpy's numbers for Python's: the compiled loop is the same."""
    for seed in range(3):
        simulate(random_scenario(seed))
    known = len(begin.signatures)
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
        )
    )
    assert len(begin.signatures) == known == 1
