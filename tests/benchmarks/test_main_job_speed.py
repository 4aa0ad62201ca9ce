"""`optimize` on its defaults: seconds cold (compiling) and warm, and memory, beside a bare
interpreter with numpy."""

import os
import resource
import statistics
import subprocess
import sys

import pytest

# the largest memory of the process itself: rusage of a child begins with its parent's
_PEAK = "print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])"
COMMAND = [
    sys.executable,
    "-c",
    f"from app.cli.main import main; main(); {_PEAK}",
    "optimize",
    "--quiet",
    "--out",
]
NUMPY = [sys.executable, "-c", f"import numpy; {_PEAK}"]


def cpu_s_and_peak_bytes(command, cache):
    """CPU seconds and largest memory of a child process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu_s, 1024 * int(done.stdout.split()[-1])


@pytest.mark.heavy
def test_defaults_cold_and_warm(benchmark, tmp_path, aim):
    cache, out = tmp_path / "cache", str(tmp_path / "out")
    cold_s, peak_bytes = cpu_s_and_peak_bytes([*COMMAND, out], cache)
    warm = [cpu_s_and_peak_bytes([*COMMAND, out], cache)[0] for _ in range(5)]
    bare = [cpu_s_and_peak_bytes(NUMPY, cache)[0] for _ in range(5)]
    benchmark.pedantic(lambda: cpu_s_and_peak_bytes([*COMMAND, out], cache), rounds=1)
    warm_s, bare_s = min(warm), statistics.median(bare)
    print(
        f"\ncold {cold_s:.1f} s, warm {warm_s:.2f} s of CPU ({warm_s / bare_s:.0f} times `import"
        f" numpy`), {peak_bytes / 2**20:.0f} MiB"
    )
    # on an idle machine `import numpy` takes 0.11 s: these are 15 s and 3 s there, whatever else
    # runs here
    aim("cold, in imports of numpy", cold_s / bare_s, most=136)
    aim("warm, in imports of numpy", warm_s / bare_s, most=27)
    aim("peak, MiB", peak_bytes / 2**20, most=400)
