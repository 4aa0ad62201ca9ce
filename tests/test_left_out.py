"""The last line of a run: what was left out, by reason."""

import subprocess
import sys

import pytest

TESTS = """
import pytest

@pytest.mark.parametrize("cell", range(3))
def test_without_data(cell):
    pytest.skip("no data")

@pytest.mark.skipif(True, reason="no engine")
def test_without_an_engine():
    pass

@pytest.mark.slow
def test_of_minutes():
    pass

def test_of_today():
    pass
"""


@pytest.mark.heavy
@pytest.mark.parametrize("workers", [0, 2])
def test_the_last_line_counts_what_was_left_out_by_reason(root, tmp_path, workers):
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  slow: takes minutes\n")
    done = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "tests.left_out",
                "-p",
                "no:cacheprovider",
            ),
            *("-m", "not slow", "-n", str(workers), str(tmp_path)),
        ],
        env={"PYTHONPATH": str(root), "PATH": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("Left out: ")]
    assert line == (
        "Left out: 5 tests: 3 (no data); 1 (no engine); 1 (slow, which `make slow` runs)"
    )
